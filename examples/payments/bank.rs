//! The money: what must not happen twice.

use std::sync::{Arc, Mutex, PoisonError};

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What a caller asks for; the amount is in the currency's smallest unit.
#[derive(Debug, Deserialize)]
pub(crate) struct Order {
    amount: u64,
    currency: String,
}

/// A charge that was made.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Payment {
    id: String,
    amount: u64,
    currency: String,
    #[serde(skip)]
    user: String,
}

/// Keeps the charges.
#[derive(Clone, Default)]
pub(crate) struct Bank {
    payments: Arc<Mutex<Vec<Payment>>>,
}

impl Bank {
    /// Charges `user`.
    pub(crate) fn charge(&self, user: &str, order: Order) -> Result<Payment, ChargeError> {
        if order.amount == 0 {
            return Err(ChargeError::NothingToCharge);
        }
        if order.currency.len() != 3 {
            return Err(ChargeError::UnknownCurrency(order.currency));
        }
        let mut payments = self.payments.lock().unwrap_or_else(PoisonError::into_inner);
        let payment = Payment {
            id: format!("ch_{}", payments.len() + 1),
            amount: order.amount,
            currency: order.currency,
            user: user.into(),
        };
        payments.push(payment.clone());
        Ok(payment)
    }

    /// The charges of `user`.
    pub(crate) fn payments(&self, user: &str) -> Vec<Payment> {
        let payments = self.payments.lock().unwrap_or_else(PoisonError::into_inner);
        payments.iter().filter(|payment| payment.user == user).cloned().collect()
    }
}

/// Why nothing was charged. A retry of the same request gets the same answer.
#[derive(Debug)]
pub(crate) enum ChargeError {
    NothingToCharge,
    UnknownCurrency(String),
}

impl IntoResponse for ChargeError {
    fn into_response(self) -> Response {
        let error = match self {
            Self::NothingToCharge => "the amount is zero".to_owned(),
            Self::UnknownCurrency(currency) => format!("`{currency}` is not a currency code"),
        };
        (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({ "error": error }))).into_response()
    }
}
