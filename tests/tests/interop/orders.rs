//! Every order of `idempotent`, `debug_handler`, `instrument` and `utoipa::path`, and of `cfg_attr`.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::{Json, extract::State, http::StatusCode};
use idem_runtime::{HasIdempotency, Idempotency, idempotent, store::MemoryStore};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::is_guarded;

#[derive(Clone)]
pub(crate) struct App {
    idempotency: Idempotency,
}

impl App {
    pub(crate) fn new() -> Self {
        Self { idempotency: Idempotency::new(MemoryStore::new()) }
    }
}

impl HasIdempotency for App {
    fn idempotency(&self) -> &Idempotency {
        &self.idempotency
    }
}

#[derive(Debug, serde::Deserialize)]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) amount: u64,
}

/// A number that differs from run to run.
pub(crate) fn next() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed).to_string()
}

/// A handler whose attributes stand in the order of the letters.
macro_rules! order {
    ($name:ident $order:ident []$($attributes:tt)*) => {
        pub(crate) mod $name {
            use super::*;

            /// Creates an order.
            ///
            /// Once.
            $($attributes)*
            pub(crate) async fn create(State(_app): State<App>, Json($order): Json<Order>) -> (StatusCode, String) {
                (StatusCode::CREATED, format!("{} of {} is {}", $order.amount, $order.id, next()))
            }
        }
    };
    ($name:ident $order:ident [I $($rest:ident)*] $($attributes:tt)*) => {
        order!($name $order [$($rest)*] $($attributes)* #[idempotent(ttl = "24h", scope = $order.id)]);
    };
    ($name:ident $order:ident [D $($rest:ident)*] $($attributes:tt)*) => {
        order!($name $order [$($rest)*] $($attributes)* #[axum::debug_handler]);
    };
    ($name:ident $order:ident [S $($rest:ident)*] $($attributes:tt)*) => {
        order!($name $order [$($rest)*] $($attributes)* #[tracing::instrument(skip(_app), fields(id = %$order.id))]);
    };
    ($name:ident $order:ident [U $($rest:ident)*] $($attributes:tt)*) => {
        order!($name $order [$($rest)*] $($attributes)*
            #[utoipa::path(post, path = concat!("/", stringify!($name)), responses((status = 201)))]);
    };
    ($name:ident $order:ident [C $($rest:ident)*] $($attributes:tt)*) => {
        order!($name $order [$($rest)*] $($attributes)* #[cfg_attr(all(), axum::debug_handler, allow(unused))]);
    };
    ($name:ident $order:ident [R $($rest:ident)*] $($attributes:tt)*) => {
        order!($name $order [$($rest)*] $($attributes)* #[rustfmt::skip]);
    };
}

/// Declares the handlers, and tests each as a route that `routes!` takes from another module.
macro_rules! orders {
    ($($name:ident [$($letter:ident)*])*) => {
        $(order!($name order [$($letter)*]);)*

        #[tokio::test]
        async fn every_order_is_guarded_and_documented() {
            let router = OpenApiRouter::new()$(.routes(routes!($name::create)))*;
            let (router, document) = router.with_state(App::new()).split_for_parts();
            for path in [$(concat!("/", stringify!($name))),*] {
                is_guarded(&router, path).await;
                let operation = document.paths.paths[path].post.as_ref().unwrap();
                assert_eq!(operation.summary.as_deref(), Some("Creates an order."), "{path}");
                assert_eq!(operation.operation_id.as_deref(), Some("create"), "{path}");
            }
        }
    };
}

orders! {
    idsu [I D S U] idus [I D U S] isdu [I S D U] isud [I S U D] iuds [I U D S] iusd [I U S D]
    disu [D I S U] dius [D I U S] dsiu [D S I U] dsui [D S U I] duis [D U I S] dusi [D U S I]
    sidu [S I D U] siud [S I U D] sdiu [S D I U] sdui [S D U I] suid [S U I D] sudi [S U D I]
    uids [U I D S] uisd [U I S D] udis [U D I S] udsi [U D S I] usid [U S I D] usdi [U S D I]
    icru [I C R U] iurc [I U R C] crui [C R U I] ciru [C I R U] uirc [U I R C] rciu [R C I U]
}
