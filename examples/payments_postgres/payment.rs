//! The money: one row per payment.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::{PgConnection, PgPool, Row as _, postgres::PgRow};

/// The application's tables. Two starts at once must not both create them.
pub(crate) const TABLES: &str = "
    SELECT pg_advisory_xact_lock(20260101);
    CREATE TABLE IF NOT EXISTS payments (
      id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      customer text   NOT NULL,
      amount   bigint NOT NULL CHECK (amount > 0),
      currency text   NOT NULL
    );
    CREATE TABLE IF NOT EXISTS outbox (
      id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      receipt_for bigint NOT NULL REFERENCES payments
    );";

/// What a caller asks for; the amount is in the currency's smallest unit.
#[derive(Debug, Deserialize)]
pub(crate) struct Order {
    amount: i64,
    currency: String,
}

/// A payment that was made.
#[derive(Debug, Serialize)]
pub(crate) struct Payment {
    id: i64,
    amount: i64,
    currency: String,
}

impl Payment {
    /// Pays.
    pub(crate) async fn insert(
        connection: &mut PgConnection,
        customer: &str,
        order: &Order,
    ) -> Result<Self, PaymentError> {
        if order.amount <= 0 {
            return Err(PaymentError::NothingToPay);
        }
        let row = sqlx::query(
            "INSERT INTO payments (customer, amount, currency) VALUES ($1, $2, $3) RETURNING id, amount, currency",
        )
        .bind(customer)
        .bind(order.amount)
        .bind(&order.currency)
        .fetch_one(connection)
        .await?;
        Ok(Self::read(&row)?)
    }

    /// The payments of `customer`.
    pub(crate) async fn of(pool: &PgPool, customer: &str) -> Result<Vec<Self>, PaymentError> {
        let rows = sqlx::query("SELECT id, amount, currency FROM payments WHERE customer = $1 ORDER BY id")
            .bind(customer)
            .fetch_all(pool)
            .await?;
        Ok(rows.iter().map(Self::read).collect::<Result<_, _>>()?)
    }

    pub(crate) const fn id(&self) -> i64 {
        self.id
    }

    fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self { id: row.try_get("id")?, amount: row.try_get("amount")?, currency: row.try_get("currency")? })
    }
}

/// Why nothing was paid.
#[derive(Debug)]
pub(crate) enum PaymentError {
    /// A retry gets the same answer: a 4xx is recorded.
    NothingToPay,
    /// A conflict or a broken connection becomes a 503 with `Retry-After` by itself.
    Database(sqlx::Error),
}

impl From<sqlx::Error> for PaymentError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl IntoResponse for PaymentError {
    fn into_response(self) -> Response {
        let (status, error) = match self {
            Self::NothingToPay => (StatusCode::UNPROCESSABLE_ENTITY, "the amount must be positive"),
            Self::Database(error) => {
                tracing::error!(%error, "the database failed");
                (StatusCode::INTERNAL_SERVER_ERROR, "the database failed")
            }
        };
        (status, Json(json!({ "error": error }))).into_response()
    }
}
