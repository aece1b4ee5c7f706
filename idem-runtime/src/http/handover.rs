//! From a layer's claim to the own one of a handler below it.
//!
//! A layer can't know whether the handler below is annotated until that handler's arguments are extracted. So it claims,
//! and offers to let go: whoever guards itself below takes the offer up and waits until the layer's claim is released
//! before it makes its own. At no time has a request two claims.

use http::Extensions;
use tokio::sync::{mpsc, oneshot};

/// In the request's extensions: the layer above will let go of its claim.
#[derive(Clone, Debug)]
pub(super) struct Offer(mpsc::Sender<LetGo>);

/// Tells the one below that the layer's claim is released; so does its drop.
pub(super) type LetGo = oneshot::Sender<()>;

/// In the response's extensions: it is none, the claim is to be released unreported.
#[derive(Clone, Copy, Debug)]
pub(super) struct HandedOver;

pub(super) fn offer() -> (Offer, mpsc::Receiver<LetGo>) {
    let (offer, taken) = mpsc::channel(1);
    (Offer(offer), taken)
}

/// The offer of the layer above, if there is one.
pub(super) fn offered(extensions: &mut Extensions) -> Option<Offer> {
    extensions.remove()
}

impl Offer {
    /// Takes it up, and waits until the claim above is released.
    pub(super) async fn take_up(self) {
        let (let_go, released) = oneshot::channel();
        // A layer that is gone, or has handed over already, holds nothing up.
        if self.0.try_send(let_go).is_ok() {
            let _ = released.await;
        }
    }
}
