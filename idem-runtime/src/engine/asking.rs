//! A claim under way.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::runtime::Handle;
use tracing::{Instrument as _, Span};

use super::{Engine, Job, Work, calls::Call, running::Busy};
use crate::{
    protocol::Reading,
    store::{Claimed, StoreError},
};

/// Polled by its caller, so that no thread is woken for an answer that sends nobody to work. A caller that goes away leaves
/// it to a task, and the work too if the claim is granted: the store may have granted it already.
pub(super) struct Asking<W: Work> {
    engine: Arc<Engine>,
    answer: Option<Pin<Box<dyn Future<Output = Asked<W>> + Send>>>,
    span: Span,
    runtime: Handle,
}

/// What the store said.
pub(super) struct Asked<W> {
    pub(super) job: Box<Job<W>>,
    pub(super) claimed: Result<Claimed, StoreError>,
    /// When the answered call was sent.
    pub(super) sent: Reading,
    /// Held until the work is counted.
    pub(super) busy: Option<Busy>,
}

impl<W: Work> Asking<W> {
    /// Claims, beginning with `call`, which is sent at `sent`.
    pub(super) fn new(engine: &Arc<Engine>, job: Box<Job<W>>, call: Call<Claimed>, sent: Reading) -> Self {
        let (asker, busy) = (Arc::clone(engine), Some(engine.running.busy()));
        let asking = async move {
            let (claimed, sent) = asker.claim(&job.claim, call, sent).await;
            Asked { job, claimed, sent, busy }
        };
        let (span, runtime) = (Span::current(), Handle::current());
        Self { engine: Arc::clone(engine), answer: Some(Box::pin(asking)), span, runtime }
    }
}

impl<W: Work> Future for Asking<W> {
    type Output = Asked<W>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Asked<W>> {
        // Taken out, so that one that panics is left to nobody.
        let Some(mut asking) = self.answer.take() else { return Poll::Pending };
        let polled = asking.as_mut().poll(context);
        if polled.is_pending() {
            self.answer = Some(asking);
        }
        polled
    }
}

impl<W: Work> Drop for Asking<W> {
    fn drop(&mut self) {
        let Some(asking) = self.answer.take() else { return };
        let engine = Arc::clone(&self.engine);
        let rest = async move {
            let Asked { job, claimed, sent, busy: _busy } = asking.await;
            if let Ok(Claimed::Owner { epoch, attempt }) = claimed {
                engine.run(job, sent, (epoch, attempt)).await;
            }
        };
        self.runtime.spawn(rest.instrument(self.span.clone()));
    }
}
