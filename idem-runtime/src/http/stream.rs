//! A body that takes its time: it passes to the caller as it comes, and a copy is kept as long as that is bounded.

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt as _;
use tokio::{
    sync::mpsc::{Receiver, Sender},
    time::{Instant, timeout_at},
};

use super::capture::{Copy, Kept, Piece, poll_piece};
use crate::engine::Settled;

/// How many frames the copy may be ahead of a slow caller.
pub(super) const AHEAD: usize = 8;

/// What passes to the caller's side. An end that nobody announces is a cut.
#[derive(Debug)]
pub(super) enum Passed {
    Piece(Piece),
    End,
}

/// Passes `body` on until its copy is complete, too large, or late; then the record is settled, and the rest goes on.
///
/// A caller that leaves doesn't stop the copy.
pub(super) async fn copy(
    mut body: Body,
    kept: Kept,
    mut copy: Copy,
    sender: Sender<Passed>,
    until: Instant,
) -> Settled {
    loop {
        let Ok(next) = timeout_at(until, poll_fn(|context| poll_piece(&mut body, context))).await else {
            return Settled { keep: kept.tombstone(), rest: Some(Box::pin(pass_on(None, body, sender))) };
        };
        let frame = match next {
            // The end is told after the record is settled: a caller that has it all may retry at once.
            None => return Settled { keep: kept.whole(&copy), rest: Some(Box::pin(send_last(Passed::End, sender))) },
            Some(Err(error)) => {
                let last = Passed::Piece(Err(error));
                return Settled { keep: kept.tombstone(), rest: Some(Box::pin(send_last(last, sender))) };
            }
            Some(Ok(frame)) => frame,
        };
        if !copy.take(&frame) {
            return Settled { keep: kept.tombstone(), rest: Some(Box::pin(pass_on(Some(frame), body, sender))) };
        }
        let place = timeout_at(until, sender.reserve()).await;
        match place {
            Ok(Ok(place)) => place.send(Passed::Piece(Ok(frame))),
            // The caller has left; the copy goes on without one.
            Ok(Err(_)) => {}
            Err(_) => {
                return Settled {
                    keep: kept.tombstone(),
                    rest: Some(Box::pin(pass_on(Some(frame), body, sender.clone()))),
                };
            }
        }
    }
}

/// Passes the rest of `body` on for as long as the caller is there.
async fn pass_on(taken: Option<Frame<Bytes>>, mut body: Body, sender: Sender<Passed>) {
    if let Some(frame) = taken
        && sender.send(Passed::Piece(Ok(frame))).await.is_err()
    {
        return;
    }
    loop {
        let next = tokio::select! {
            next = body.frame() => next,
            () = sender.closed() => return,
        };
        let passed = next.map_or(Passed::End, Passed::Piece);
        let last = !matches!(passed, Passed::Piece(Ok(_)));
        if sender.send(passed).await.is_err() || last {
            return;
        }
    }
}

async fn send_last(last: Passed, sender: Sender<Passed>) {
    // A caller that left doesn't miss it.
    let _ = sender.send(last).await;
}

/// The caller's side.
pub(super) struct Passing {
    begun: VecDeque<Piece>,
    receiver: Receiver<Passed>,
    ended: bool,
}

impl Passing {
    pub(super) fn new(begun: VecDeque<Piece>, receiver: Receiver<Passed>) -> Self {
        Self { begun, receiver, ended: false }
    }
}

impl fmt::Debug for Passing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passing").field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl http_body::Body for Passing {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(piece) = self.begun.pop_front() {
            return Poll::Ready(Some(piece));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        let Poll::Ready(passed) = self.receiver.poll_recv(context) else { return Poll::Pending };
        self.ended = !matches!(passed, Some(Passed::Piece(Ok(_))));
        Poll::Ready(match passed {
            Some(Passed::Piece(piece)) => Some(piece),
            Some(Passed::End) => None,
            None => Some(Err(axum::Error::new(io::Error::other("the answer was cut: its run was stopped")))),
        })
    }
}
