//! The money: what must not happen twice.

use std::{
    env,
    fs::File,
    io::{self, Seek as _, Write as _},
    process,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use utoipa::ToSchema;

/// What a caller asks for; the amount is in the currency's smallest unit.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Order {
    #[schema(minimum = 1, format = "uint64")]
    amount: u64,
    /// Three letters.
    #[schema(pattern = "^[A-Za-z]{3}$", example = "eur")]
    currency: String,
}

/// A charge that was made.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Payment {
    id: String,
    amount: u64,
    currency: String,
    #[serde(skip)]
    user: String,
}

/// Keeps the charges.
#[derive(Clone)]
pub(crate) struct Bank {
    payments: Arc<Mutex<Vec<Payment>>>,
    /// What was charged by every process; it outlives them.
    ledger: Option<Arc<File>>,
    /// A charge takes the remainder of its amount, in milliseconds.
    slowness: u64,
}

impl Bank {
    /// `LEDGER` names a file to which charges are appended, `BANK_MS` how slow the bank may be.
    pub(crate) fn open() -> io::Result<Self> {
        let ledger =
            env::var_os("LEDGER").map(|path| File::options().create(true).append(true).open(path)).transpose()?;
        let slowness = env::var("BANK_MS").ok().and_then(|slowness| slowness.parse().ok()).unwrap_or(1);
        Ok(Self { payments: Arc::default(), ledger: ledger.map(Arc::new), slowness })
    }

    /// Charges `user`.
    pub(crate) async fn charge(&self, user: &str, order: Order) -> Result<Payment, ChargeError> {
        let slowness = Duration::from_millis(order.amount.checked_rem(self.slowness).unwrap_or_default());
        let payment = self.transfer(user, order)?;
        // The money has moved; what is cut off from here on is the answer.
        sleep(slowness).await;
        Ok(payment)
    }

    fn transfer(&self, user: &str, order: Order) -> Result<Payment, ChargeError> {
        if order.amount == 0 {
            return Err(ChargeError::NothingToCharge);
        }
        if order.currency.len() != 3 || !order.currency.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return Err(ChargeError::UnknownCurrency(order.currency));
        }
        let mut payments = self.payments.lock().unwrap_or_else(PoisonError::into_inner);
        let number = match &self.ledger {
            Some(ledger) => append(ledger, user, order.amount).map_err(ChargeError::Ledger)?,
            None => u64::try_from(payments.len()).unwrap_or(u64::MAX).saturating_add(1),
        };
        let payment =
            Payment { id: format!("ch_{number}"), amount: order.amount, currency: order.currency, user: user.into() };
        payments.push(payment.clone());
        Ok(payment)
    }

    /// The charges of `user`.
    pub(crate) fn payments(&self, user: &str) -> Vec<Payment> {
        let payments = self.payments.lock().unwrap_or_else(PoisonError::into_inner);
        payments.iter().filter(|payment| payment.user == user).cloned().collect()
    }
}

/// Writes one line; gives its end in the file, which no other line of any process has.
fn append(mut ledger: &File, user: &str, amount: u64) -> io::Result<u64> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    // One write in append mode, so that processes don't mix their lines.
    ledger.write_all(format!("{user} {amount} {} {now}\n", process::id()).as_bytes())?;
    ledger.stream_position()
}

/// Why nothing was charged. A retry of the same request gets the same answer.
#[derive(Debug)]
pub(crate) enum ChargeError {
    NothingToCharge,
    UnknownCurrency(String),
    /// Nothing that a retry must get again.
    Ledger(io::Error),
}

/// A [`ChargeError`] as the caller sees it.
#[derive(Serialize, ToSchema)]
pub(crate) struct NotCharged {
    error: String,
}

impl IntoResponse for ChargeError {
    fn into_response(self) -> Response {
        let mut status = StatusCode::UNPROCESSABLE_ENTITY;
        let error = match self {
            Self::NothingToCharge => "the amount is zero".to_owned(),
            Self::UnknownCurrency(currency) => format!("`{currency}` is not a currency code"),
            Self::Ledger(error) => {
                tracing::error!(%error, "the ledger can't be written");
                status = StatusCode::INTERNAL_SERVER_ERROR;
                "the bank is closed".to_owned()
            }
        };
        (status, Json(NotCharged { error })).into_response()
    }
}
