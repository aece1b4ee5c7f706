//! From the handler's answer to the record, without holding the answer up.

use std::{
    borrow::Borrow,
    collections::VecDeque,
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    slice,
    task::{Context, Poll},
    time::Duration,
};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use http::{HeaderMap, response::Parts};
use http_body::{Body as _, Frame, SizeHint};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

use super::{
    handover::HandedOver,
    headers::stored,
    problem::{Problem, RolledBack},
    settle::{Settle, commits, decide},
    stream,
};
use crate::{
    Idempotency,
    engine::{self, Answer, Close, Written},
    policy::Policy,
    record,
};

pub(super) type Piece = Result<Frame<Bytes>, axum::Error>;

/// The copy of a body that is still coming.
pub(super) struct Copy {
    pieces: Vec<Bytes>,
    trailers: Option<HeaderMap>,
    size: u64,
    limit: u64,
}

impl Copy {
    /// Takes a frame; says whether the copy is still within its limit.
    pub(super) fn take(&mut self, frame: &Frame<Bytes>) -> bool {
        if let Some(data) = frame.data_ref() {
            self.size += data.len() as u64;
            if self.size > self.limit {
                self.pieces.clear();
                return false;
            }
            if !data.is_empty() {
                self.pieces.push(data.clone());
            }
        } else if let Some(trailers) = frame.trailers_ref() {
            self.trailers = Some(trailers.clone());
        }
        true
    }
}

/// What is stored of an answer beside its body.
pub(super) struct Kept<H = Parts, I = Idempotency> {
    head: H,
    idempotency: I,
}

impl<H: Borrow<Parts>, I: Borrow<Idempotency>> Kept<H, I> {
    /// The record of the whole answer.
    pub(super) fn whole(&self, copy: &Copy) -> Bytes {
        self.encode(Some(&copy.pieces), copy.trailers.as_ref())
    }

    /// The record of an answer whose body is not kept.
    pub(super) fn tombstone(&self) -> Bytes {
        self.encode(None, None)
    }

    fn encode(&self, body: Option<&[Bytes]>, trailers: Option<&HeaderMap>) -> Bytes {
        let head = self.head.borrow();
        record::encode(head.status, stored(&head.headers, self.idempotency.borrow().kept_headers()), trailers, body)
    }
}

/// Decides what becomes of the record and prepares the answer for the caller.
pub(super) fn answer(
    response: Response,
    policy: &Policy,
    idempotency: &Idempotency,
    context: &mut Context<'_>,
) -> Answer<Response> {
    let (head, mut body) = response.into_parts();
    if head.extensions.get::<HandedOver>().is_some() {
        return pass(head, body, engine::Settle::HandOver);
    }
    let choice = head.extensions.get::<Settle>().copied();
    match choice.unwrap_or_else(|| decide(head.status, policy.record, policy.unknown)) {
        Settle::Keep => {}
        Settle::Release => return pass(head, body, engine::Settle::Release),
        Settle::Hold => return pass(head, body, engine::Settle::Hold),
    }
    let kept = Kept { head: &head, idempotency };
    let mut copy = Copy { pieces: Vec::new(), trailers: None, size: 0, limit: policy.max_response };
    if body.size_hint().lower() > copy.limit {
        let settle = engine::Settle::Keep(kept.tombstone());
        return pass(head, body, settle);
    }
    let mut piece = poll_piece(&mut body, context);
    // Most answers are one piece of bytes.
    if let Poll::Ready(Some(Ok(frame))) = &piece
        && let Some(data) = frame.data_ref()
        && data.len() as u64 <= copy.limit
        && ends(&body)
    {
        let settle = engine::Settle::Keep(kept.encode(Some(slice::from_ref(data)), None));
        let body = Body::from(data.clone());
        return pass(head, body, settle);
    }
    let mut begun = VecDeque::new();
    let (settle, body) = loop {
        match mem::replace(&mut piece, Poll::Pending) {
            Poll::Ready(None) => break (engine::Settle::Keep(kept.whole(&copy)), whole_body(begun)),
            Poll::Ready(Some(Ok(frame))) => {
                let fits = copy.take(&frame);
                begun.push_back(Ok(frame));
                if !fits {
                    let body = Body::new(Rejoined { begun, rest: Some(body) });
                    break (engine::Settle::Keep(kept.tombstone()), body);
                }
                piece = poll_piece(&mut body, context);
            }
            Poll::Ready(Some(Err(error))) => {
                // The effect has happened and the answer's head is known: a retry gets the head and runs nothing.
                begun.push_back(Err(error));
                let body = Body::new(Rejoined { begun, rest: None });
                break (engine::Settle::Keep(kept.tombstone()), body);
            }
            Poll::Pending => {
                let (sender, receiver) = mpsc::channel(stream::AHEAD);
                let until = Instant::now() + Duration::from_millis(policy.lease_ms);
                let cut = kept.tombstone();
                let kept = Kept { head: head.clone(), idempotency: idempotency.clone() };
                let copy = Box::pin(stream::copy(body, kept, copy, sender, until));
                break (engine::Settle::Later { cut, copy }, Body::new(stream::Passing::new(begun, receiver)));
            }
        }
    };
    pass(head, body, settle)
}

/// Decides what becomes of the transaction that the handler wrote in, with the record that commits in it.
///
/// The whole body comes first, as far as it is to be kept: nobody must hear of what may still be rolled back.
pub(super) async fn written(response: Response, policy: &Policy, idempotency: &Idempotency) -> Written<Response> {
    let (head, body) = response.into_parts();
    let failed = head.status.is_server_error();
    let choice = head.extensions.get::<Settle>().copied();
    let commit = commits(head.status, choice);
    let settle = choice.unwrap_or_else(|| decide(head.status, policy.record, policy.unknown));
    if !commit && settle != Settle::Keep {
        let close = if settle == Settle::Hold { Close::Hold } else { Close::Forget };
        return Written { reply: Response::from_parts(head, body), close, failed };
    }
    let kept = Kept { head: &head, idempotency };
    let (outcome, body) = match collect(body, policy).await {
        (Some(copy), body) => (kept.whole(&copy), body),
        (None, Ok(body)) => (kept.tombstone(), Ok(body)),
        (None, Err(error)) => (Bytes::new(), Err(error)),
    };
    let close = if commit { Close::Commit(outcome) } else { Close::Record(outcome) };
    match body {
        Ok(body) => Written { reply: Response::from_parts(head, body), close, failed },
        // Nothing has been sent: the handler has failed, and a retry runs it again.
        Err(error) => {
            tracing::warn!(target: "idem", %error, "the answer's body failed before the commit");
            let reply = Problem::from(RolledBack {}).respond(idempotency.problem_base());
            Written { reply, close: Close::Forget, failed: true }
        }
    }
}

/// Reads a body to its end. Where it is too large or too slow there is no copy, and the body goes on where it was.
async fn collect(mut body: Body, policy: &Policy) -> (Option<Copy>, Result<Body, axum::Error>) {
    let mut copy = Copy { pieces: Vec::new(), trailers: None, size: 0, limit: policy.max_response };
    if body.size_hint().lower() > copy.limit {
        return (None, Ok(body));
    }
    // The whole lease is what the server gives a transaction that is idle.
    let until = Instant::now() + Duration::from_millis(policy.lease_ms / 2);
    let mut begun = VecDeque::new();
    loop {
        match timeout_at(until, std::future::poll_fn(|context| poll_piece(&mut body, context))).await {
            Ok(None) => return (Some(copy), Ok(whole_body(begun))),
            Ok(Some(Ok(frame))) => {
                let fits = copy.take(&frame);
                begun.push_back(Ok(frame));
                if !fits {
                    return (None, Ok(Body::new(Rejoined { begun, rest: Some(body) })));
                }
            }
            Ok(Some(Err(error))) => return (None, Err(error)),
            Err(_) => return (None, Ok(Body::new(Rejoined { begun, rest: Some(body) }))),
        }
    }
}

/// Polls a body for its next piece. One that panics has failed like any other: the answer's head stands.
pub(super) fn poll_piece(body: &mut Body, context: &mut Context<'_>) -> Poll<Option<Piece>> {
    catch_unwind(AssertUnwindSafe(|| Pin::new(body).poll_frame(context)))
        .unwrap_or_else(|_| Poll::Ready(Some(Err(axum::Error::new(io::Error::other("the body panicked"))))))
}

/// Whether a body says that nothing more comes, trailers included.
fn ends(body: &Body) -> bool {
    catch_unwind(AssertUnwindSafe(|| body.is_end_stream())).unwrap_or(false)
}

fn pass(head: Parts, body: Body, settle: engine::Settle) -> Answer<Response> {
    Answer { reply: Response::from_parts(head, body), settle }
}

/// A body that has come whole.
fn whole_body(mut frames: VecDeque<Piece>) -> Body {
    if let [Ok(frame)] = frames.make_contiguous()
        && let Some(data) = frame.data_ref()
    {
        return Body::from(data.clone());
    }
    if frames.is_empty() { Body::empty() } else { Body::new(Rejoined { begun: frames, rest: None }) }
}

/// A body of which some frames were taken already.
pub(super) struct Rejoined {
    pub(super) begun: VecDeque<Piece>,
    pub(super) rest: Option<Body>,
}

impl http_body::Body for Rejoined {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        if let Some(piece) = self.begun.pop_front() {
            return Poll::Ready(Some(piece));
        }
        match &mut self.rest {
            Some(rest) => Pin::new(rest).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.begun.is_empty() && self.rest.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let begun: u64 = self.begun.iter().flatten().filter_map(Frame::data_ref).map(|data| data.len() as u64).sum();
        // A piece that failed cuts the body: a length would make what came before it pass for the whole. Behind a
        // length HTTP/1.1 has no place for trailers.
        let rest = match &self.rest {
            Some(rest) => rest.size_hint(),
            None if !self.begun.iter().all(|piece| piece.as_ref().is_ok_and(Frame::is_data)) => SizeHint::default(),
            None => SizeHint::with_exact(0),
        };
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + begun);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + begun);
        }
        hint
    }
}
