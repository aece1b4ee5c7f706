//! Clients that repeat themselves, hang up, and send another body or as another user under the same key.

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

/// A guarded handler of the example.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    path: &'static str,
    pub(crate) unknown: &'static str,
    form: bool,
}

pub(crate) const ROUTES: [Route; 2] = [
    Route { path: "/payments", unknown: "retry", form: false },
    Route { path: "/v1/charges", unknown: "hold", form: true },
];

/// A 2xx that reached a client.
#[derive(Clone, Debug)]
pub(crate) struct Success {
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
    /// What was asked for; the second is the conflicting body's.
    pub(crate) amounts: [u64; 2],
    pub(crate) conflicting: u64,
    pub(crate) requests: u64,
    pub(crate) successes: Vec<Success>,
    pub(crate) held: bool,
    /// The answer at the very end, when nothing is hurt any more.
    pub(crate) at_last: Option<Success>,
    /// What no client may ever see.
    pub(crate) wrong: Vec<String>,
}

enum Reply {
    Success(Success),
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
                let request = self.request(case, case.amounts[0], chance);
                case.requests += 1;
                let _ = tokio::time::timeout(chance.time(1, 60), request.send()).await;
            }
            let duplicates = if chance.percent(40) { chance.between(2, 6) } else { 1 };
            let conflicting = case.at_work() && chance.percent(20);
            let requests: Vec<_> = (0..duplicates).map(|_| self.request(case, case.amounts[0], chance)).collect();
            let other = conflicting.then(|| self.request(case, case.amounts[1], chance));
            let (replies, other) = tokio::join!(join_all(requests.into_iter().map(reply)), async {
                match other {
                    Some(request) => Some(reply(request).await),
                    None => None,
                }
            });
            case.hear(replies, other);
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
        let deadline = Instant::now() + LEASE * 2 + Duration::from_secs(15);
        loop {
            let answer = reply(self.request(case, case.amounts[0], &mut chance)).await;
            case.requests += 1;
            match answer {
                Reply::Success(success) => {
                    case.at_last = Some(success.clone());
                    return case.successes.push(success);
                }
                Reply::Refused(code) if code == "idempotency_outcome_unknown" => return case.held = true,
                Reply::Refused(code) if code == "idempotency_key_reused" && case.conflicting > 0 => return,
                Reply::Wrong(wrong) => return case.wrong.push(wrong),
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
            conflicting: 0,
            requests: 0,
            successes: Vec::new(),
            held: false,
            at_last: None,
            wrong: Vec::new(),
        }
    }

    /// Whether somebody has run or runs for sure, so that another body is a conflict.
    fn at_work(&self) -> bool {
        !self.successes.is_empty()
    }

    fn hear(&mut self, replies: Vec<Reply>, other: Option<Reply>) {
        self.requests += u64::try_from(replies.len()).unwrap();
        for reply in replies {
            match reply {
                Reply::Success(success) => self.successes.push(success),
                Reply::Refused(code) if code == "idempotency_outcome_unknown" && self.route.unknown == "hold" => {
                    self.held = true;
                }
                Reply::Refused(code) if code == "idempotency_key_reused" && self.conflicting > 0 => {}
                Reply::Refused(code) if ALLOWED.contains(&&*code) => {}
                Reply::Refused(code) => self.wrong.push(format!("refused by {code}")),
                Reply::Wrong(wrong) => self.wrong.push(wrong),
                Reply::Nothing => {}
            }
        }
        if let Some(reply) = other {
            self.requests += 1;
            self.conflicting += 1;
            match reply {
                Reply::Success(success) => self.successes.push(success),
                Reply::Wrong(wrong) => self.wrong.push(wrong),
                Reply::Refused(_) | Reply::Nothing => {}
            }
        }
    }
}

const ALLOWED: [&str; 3] = ["idempotency_in_progress", "idempotency_store_unavailable", "idempotency_lease_lost"];

async fn reply(request: RequestBuilder) -> Reply {
    let from = now();
    let Ok(response) = request.send().await else { return Reply::Nothing };
    let (status, headers) = (response.status(), response.headers().clone());
    let Ok(body) = response.bytes().await else { return Reply::Nothing };
    let answer = Answer { status: status.as_u16(), headers, body: body.to_vec() };
    let Ok(body) = serde_json::from_slice::<Value>(&answer.body) else {
        return Reply::Wrong(format!("{status} {}", answer.text()));
    };
    if status.is_success() {
        return Reply::Success(Success { body, replay: answer.is_replay(), time: (from, now()) });
    }
    match body["code"].as_str() {
        Some(code) => Reply::Refused(code.into()),
        None => Reply::Wrong(format!("{status} {body}")),
    }
}
