//! Where the [`Idempotency`] comes from: the router's state, or a layer.

use std::{marker::PhantomData, sync::Arc};

use axum::extract::FromRef;
use http::Extensions;

use crate::Idempotency;

/// A router state that holds an [`Idempotency`].
///
/// Implement it, or derive `FromRef` on a state with an `Idempotency` field: one or the other, not both. `Arc<State>` has
/// it too.
pub trait HasIdempotency {
    /// The handle that guards this state's handlers.
    fn idempotency(&self) -> &Idempotency;
}

/// A router state from which annotated handlers get their [`Idempotency`]. `N` says by which way, and is inferred.
#[diagnostic::on_unimplemented(
    message = "the router state `{Self}` holds no `Idempotency`",
    label = "`#[idempotent]` finds no `Idempotency` in `{Self}`",
    note = "add a field `idempotency: Idempotency` and `#[derive(FromRef)]`, or `impl HasIdempotency` for the state itself, inside its `Arc`",
    note = "or write `#[idempotent(…, store = layer)]` and add `.layer(Extension(idempotency))` to the router"
)]
pub trait Provides<N> {
    /// The handle, or nothing where the layer that should bring it is missing.
    fn provide(&self, extensions: &Extensions) -> Option<Idempotency>;
}

/// `Idempotency: FromRef<State>`.
#[derive(Debug)]
pub struct ViaFromRef(());
/// `State: HasIdempotency`.
#[derive(Debug)]
pub struct ViaTrait(());
/// `Arc<State>` with `State: HasIdempotency`.
#[derive(Debug)]
pub struct ViaArc(());
/// `&'static State` with `State: HasIdempotency`.
#[derive(Debug)]
pub struct ViaRef(());
/// `.layer(Extension(idempotency))`.
#[derive(Debug)]
pub struct ViaLayer(());

/// How the last parameter is extracted (`M`) and how the state provides the handle (`N`); both are inferred.
#[derive(Debug)]
pub struct Via<M, N>(PhantomData<fn() -> (M, N)>);

impl<S> Provides<ViaFromRef> for S
where
    Idempotency: FromRef<S>,
{
    fn provide(&self, _: &Extensions) -> Option<Idempotency> {
        Some(Idempotency::from_ref(self))
    }
}

impl<S: HasIdempotency> Provides<ViaTrait> for S {
    fn provide(&self, _: &Extensions) -> Option<Idempotency> {
        Some(self.idempotency().clone())
    }
}

impl<S: HasIdempotency> Provides<ViaArc> for Arc<S> {
    fn provide(&self, _: &Extensions) -> Option<Idempotency> {
        Some(self.idempotency().clone())
    }
}

impl<S: HasIdempotency> Provides<ViaRef> for &'static S {
    fn provide(&self, _: &Extensions) -> Option<Idempotency> {
        Some(self.idempotency().clone())
    }
}

impl Provides<ViaLayer> for () {
    fn provide(&self, extensions: &Extensions) -> Option<Idempotency> {
        extensions.get().cloned()
    }
}
