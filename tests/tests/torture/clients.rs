//! Clients that repeat themselves, hang up, and use one key for two bodies at once or as two users.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use futures::future::join_all;
use idem_tests::server::Answer;
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    LEASE,
    chance::Chance,
    faults::now,
    servers::{BANK_MS, Servers},
};

/// A guarded handler of an example.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    path: &'static str,
    pub(crate) promise: Promise,
    form: bool,
}

/// What a handler promises of its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// One more after a crash.
    Retry,
    /// None after a crash.
    Hold,
    /// It commits with its record.
    Once,
}

pub(crate) const ROUTES: [Route; 2] = [
    Route { path: "/payments", promise: Promise::Retry, form: false },
    Route { path: "/v1/charges", promise: Promise::Hold, form: true },
];

/// The example whose record commits with the payment.
#[cfg(feature = "postgres")]
pub(crate) const TRANSACTION: Route = Route { path: "/payments", promise: Promise::Once, form: false };

/// A 2xx that reached a client.
#[derive(Clone, Debug)]
pub(crate) struct Success {
    /// What was asked for.
    pub(crate) amount: u64,
    pub(crate) body: Value,
    pub(crate) replay: bool,
    /// From when it was asked for to when it was there, in milliseconds.
    pub(crate) time: (u64, u64),
}

/// One user's use of one key.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) route: Route,
    pub(crate) user: String,
    pub(crate) key: String,
    /// What the two bodies ask for. Whichever is first has the key.
    pub(crate) amounts: [u64; 2],
    /// The body that is meant; the other one conflicts.
    meant: usize,
    pub(crate) conflicting: u64,
    /// How often both were sent at once while nobody had an answer.
    pub(crate) raced: u64,
    pub(crate) requests: u64,
    pub(crate) successes: Vec<Success>,
    pub(crate) held: bool,
    /// Amounts that were refused because the key is another body's, and when that was asked.
    pub(crate) reused: Vec<(u64, u64)>,
    /// The answer at the very end, when nothing is hurt any more.
    pub(crate) at_last: Option<Success>,
    /// What no client may ever see.
    pub(crate) wrong: Vec<String>,
}

enum Reply {
    Success(Success),
    /// The key is another body's; asked for when.
    Reused {
        amount: u64,
        from: u64,
    },
    Refused(String),
    /// No answer, or none that says anything.
    Nothing,
    Wrong(String),
}

pub(crate) struct Clients {
    servers: Arc<Servers>,
    routes: Vec<Route>,
    client: Client,
    numbers: AtomicU64,
}

impl Clients {
    pub(crate) fn new(servers: Arc<Servers>, routes: Vec<Route>) -> Self {
        // Without kept connections a server can end in order.
        let client = Client::builder().timeout(Duration::from_secs(12)).pool_max_idle_per_host(0).build().unwrap();
        Self { servers, routes, client, numbers: AtomicU64::new(1) }
    }

    /// One key after the other until the time is over.
    pub(crate) async fn play(&self, mut chance: Chance, until: Instant) -> Vec<Case> {
        let mut cases = Vec::new();
        while Instant::now() < until {
            let number = self.numbers.fetch_add(1, Relaxed);
            let route = self.routes[chance.index(self.routes.len())];
            let mut case = Case::new(route, "ada", number, &mut chance);
            if chance.percent(30) {
                let mut other = Case::new(route, "bob", number, &mut chance);
                let mut dice = Chance::new(number, chance.between(0, u64::MAX));
                tokio::join!(self.insist(&mut case, &mut chance, until), self.insist(&mut other, &mut dice, until));
                cases.push(other);
            } else {
                self.insist(&mut case, &mut chance, until).await;
            }
            cases.push(case);
        }
        cases
    }

    /// Sends the same until there is an answer that stands, and then a little more.
    async fn insist(&self, case: &mut Case, chance: &mut Chance, until: Instant) {
        let mut more = chance.between(0, 3);
        while Instant::now() < until && !case.held {
            if chance.percent(25) {
                // Hangs up: whatever comes of it is seen by the next.
                let amount = if chance.percent(10) { case.conflict() } else { case.amount() };
                let request = self.request(case, amount, chance);
                case.requests += 1;
                let _ = tokio::time::timeout(chance.time(1, 60), request.send()).await;
            }
            let duplicates = if chance.percent(40) { chance.between(2, 6) } else { 1 };
            let mut amounts: Vec<_> = (0..duplicates).map(|_| case.amount()).collect();
            if chance.percent(20) {
                case.raced += u64::from(case.successes.is_empty());
                // As likely the first as the last.
                amounts.insert(chance.index(amounts.len() + 1), case.conflict());
            }
            let requests: Vec<_> =
                amounts.into_iter().map(|amount| reply(amount, self.request(case, amount, chance))).collect();
            case.hear(join_all(requests).await);
            if !case.successes.is_empty() {
                if more == 0 {
                    return;
                }
                more -= 1;
            }
            sleep(chance.time(1, 120)).await;
        }
    }

    /// Asks once more in peace; nobody waits for longer than a lease and what a charge takes.
    pub(crate) async fn ask_at_last(&self, case: &mut Case) {
        let mut chance = Chance::new(case.amounts[0], 3000);
        if let Some(success) = case.successes.first() {
            case.meant = usize::from(success.amount == case.amounts[1]);
        }
        let deadline = Instant::now() + LEASE * 2 + Duration::from_secs(15);
        loop {
            let answer = reply(case.amount(), self.request(case, case.amount(), &mut chance)).await;
            case.requests += 1;
            match answer {
                Reply::Success(success) => {
                    case.at_last = Some(success.clone());
                    return case.successes.push(success);
                }
                Reply::Refused(code) if code == UNKNOWN => return case.held = true,
                Reply::Wrong(wrong) => return case.wrong.push(wrong),
                Reply::Reused { .. } if case.conflicting > 0 && Instant::now() < deadline => {
                    case.meant = 1 - case.meant;
                }
                _ if Instant::now() > deadline => return case.wrong.push("the key is stuck".into()),
                _ => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    fn request(&self, case: &Case, amount: u64, chance: &mut Chance) -> RequestBuilder {
        let request = self.client.post(format!("{}{}", self.servers.url(chance), case.route.path));
        let request = request.bearer_auth(&case.user).header("idempotency-key", &case.key);
        let order = json!({ "amount": amount, "currency": "eur" });
        if case.route.form { request.form(&order) } else { request.json(&order) }
    }
}

impl Case {
    fn new(route: Route, user: &str, number: u64, chance: &mut Chance) -> Self {
        // Most charges are quick; some need their lease renewed.
        let slowness = if chance.percent(90) { chance.between(0, 60) } else { chance.between(60, 4000) };
        // No amount is used for anything else.
        let amount = |body| ((number * 2 + u64::from(user == "bob")) * 2 + body) * BANK_MS + slowness;
        Self {
            route,
            user: user.into(),
            key: format!("key-{number}"),
            amounts: [amount(0), amount(1)],
            meant: 0,
            conflicting: 0,
            raced: 0,
            requests: 0,
            successes: Vec::new(),
            held: false,
            reused: Vec::new(),
            at_last: None,
            wrong: Vec::new(),
        }
    }

    fn amount(&self) -> u64 {
        self.amounts[self.meant]
    }

    /// What the other body asks for, which is about to be sent.
    fn conflict(&mut self) -> u64 {
        self.conflicting += 1;
        self.amounts[1 - self.meant]
    }

    fn hear(&mut self, replies: Vec<Reply>) {
        self.requests += u64::try_from(replies.len()).unwrap();
        for reply in replies {
            match reply {
                Reply::Success(success) => self.successes.push(success),
                Reply::Reused { amount, from } => self.reused.push((amount, from)),
                Reply::Refused(code) if code == UNKNOWN && self.route.promise == Promise::Hold => self.held = true,
                Reply::Refused(code) if PASSING.contains(&&*code) => {}
                Reply::Refused(code) if self.route.promise == Promise::Once && IN_DOUBT.contains(&&*code) => {}
                Reply::Refused(code) => self.wrong.push(format!("refused by {code}")),
                Reply::Wrong(wrong) => self.wrong.push(wrong),
                Reply::Nothing => {}
            }
        }
        // The other body was first: it is the one that is asked for from now on.
        let amount = self.amount();
        if self.successes.is_empty() && self.reused.last().is_some_and(|(refused, _)| *refused == amount) {
            self.meant = 1 - self.meant;
        }
    }
}

const UNKNOWN: &str = "idempotency_outcome_unknown";
const PASSING: [&str; 3] = ["idempotency_in_progress", "idempotency_store_unavailable", "idempotency_lease_lost"];
const IN_DOUBT: [&str; 2] = ["idempotency_rolled_back", "idempotency_commit_unknown"];

async fn reply(amount: u64, request: RequestBuilder) -> Reply {
    let from = now();
    let Ok(response) = request.send().await else { return Reply::Nothing };
    let (status, headers) = (response.status(), response.headers().clone());
    let Ok(body) = response.bytes().await else { return Reply::Nothing };
    let answer = Answer { status: status.as_u16(), headers, body: body.to_vec() };
    let Ok(body) = serde_json::from_slice::<Value>(&answer.body) else {
        return Reply::Wrong(format!("{status} {}", answer.text()));
    };
    if status.is_success() {
        return Reply::Success(Success { amount, body, replay: answer.is_replay(), time: (from, now()) });
    }
    match body["code"].as_str() {
        Some("idempotency_key_reused") => Reply::Reused { amount, from },
        Some(code) => Reply::Refused(code.into()),
        None => Reply::Wrong(format!("{status} {body}")),
    }
}
