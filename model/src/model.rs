//! Every step the world can take, and what must hold after each.

use idem_runtime::protocol::{Decision, State};
use stateright::Property;

use crate::{
    client::{Client, Phase},
    laws::Law,
    world::{Fault, LEASE, Reply, Scene, Verb, World},
};

/// A world to be explored.
#[derive(Clone, Debug)]
pub struct Model {
    /// Who is there.
    pub clients: [Client; 3],
    /// What may happen.
    pub scene: Scene,
    /// How a handler may end.
    pub ends: &'static [Verb],
    /// The rule that is broken.
    pub fault: Fault,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "their numbers are places in the world's lists")]
pub enum Step {
    /// A tick passes, for the clocks of one client unnoticed.
    Tick { behind: Option<usize> },
    /// The store's clock jumps ahead by a tick.
    Jump,
    /// A request comes in.
    Start(usize),
    /// A waiting duplicate claims again.
    ClaimAgain(usize),
    /// A call is executed and answered.
    Deliver(usize),
    /// A call is executed, its answer lost.
    DeliverUnheard(usize),
    /// A call is executed, and will be once more.
    DeliverTwice(usize),
    /// A call is lost.
    Lose(usize),
    /// A call will linger.
    Delay(usize),
    /// An answer will linger.
    DelayAnswer(usize),
    /// A caller stops waiting for a call that lingers.
    GiveUp(usize),
    /// An answer is heard; a failed claim is repeated or not.
    Hear { client: usize, repeats: bool },
    /// An owner renews.
    Renew(usize),
    /// A handler ends.
    End(usize, Verb),
    /// A process dies.
    Crash(usize),
    /// A purge sees an expired record.
    Purge,
    /// It deletes what it saw.
    PurgeEnds,
    /// An operator frees the key.
    Forget,
}

impl stateright::Model for Model {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.clients, self.scene)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        let left = world.left;
        if world.is_quiet() {
            steps.push(Step::Tick { behind: None });
        }
        for (at, client) in world.clients.iter().enumerate() {
            self.steps_of(world, at, client, steps);
        }
        for (index, call) in world.calls.iter().enumerate() {
            if world.calls[..index].contains(call) {
                continue;
            }
            steps.push(Step::Deliver(index));
            if left.delays > 0 && !call.late {
                steps.push(Step::Delay(index));
            }
            if left.losses > 0 {
                steps.push(Step::Lose(index));
                if call.awaited {
                    steps.push(Step::DeliverUnheard(index));
                }
            }
            if left.doubles > 0 {
                steps.push(Step::DeliverTwice(index));
            }
        }
        if left.jumps > 0 {
            steps.push(Step::Jump);
        }
        match world.store.held {
            _ if world.store.purging => steps.push(Step::PurgeEnds),
            Some(held) if !held.is_live() => steps.push(Step::Purge),
            Some(held) if left.forgets > 0 && held.lease == 0 => steps.push(Step::Forget),
            _ => {}
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        let (left, fault) = (&mut next.left, self.fault);
        match step {
            Step::Tick { behind } => {
                left.lags -= u8::from(behind.is_some());
                next.store.tick(fault);
                for (at, client) in next.clients.iter_mut().enumerate() {
                    if Some(at) != behind {
                        client.tick();
                    }
                }
                next.stop_the_lost(fault);
            }
            Step::Jump => {
                left.jumps -= 1;
                next.store.tick(fault);
            }
            Step::Start(at) => {
                left.starts -= 1;
                next.start(at);
            }
            Step::ClaimAgain(at) => {
                left.again -= 1;
                next.claim_again(at);
            }
            Step::Deliver(index) => next.deliver(index, true, fault),
            Step::DeliverUnheard(index) => {
                left.losses -= 1;
                next.deliver(index, false, fault);
            }
            Step::DeliverTwice(index) => {
                left.doubles -= 1;
                let mut double = next.calls[index];
                (double.awaited, double.late) = (false, true);
                next.calls.push(double);
                next.deliver(index, true, fault);
            }
            Step::Lose(index) => {
                left.losses -= 1;
                next.lose(index, fault);
            }
            Step::Delay(index) => {
                left.delays -= 1;
                next.calls[index].late = true;
            }
            Step::DelayAnswer(at) => {
                left.delays -= 1;
                next.clients[at].asked.iter_mut().for_each(|asked| asked.late = true);
            }
            Step::GiveUp(at) => {
                let asked = next.clients[at].asked;
                next.stop_waiting(at);
                next.clients[at].asked = asked;
                next.answer(at, Reply::Fault, fault);
            }
            Step::Hear { client, repeats } => next.hear(client, repeats, fault),
            Step::Renew(at) => next.renew(at),
            Step::End(at, end) => next.settle(at, end),
            Step::Crash(at) => {
                left.crashes -= 1;
                next.crash(at);
            }
            Step::Purge => next.store.purging = true,
            Step::PurgeEnds => next.store.purge(fault, &mut next.laws),
            Step::Forget => {
                left.forgets -= 1;
                next.store.delete();
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = laws();
        properties.extend([
            Property::always("who can prove its lease is the owner, and the only one", |_, world: &World| {
                let proven = || world.clients.iter().filter(|client| client.is_proven());
                let owner = world.store.live().filter(|held| held.state == State::InProgress);
                proven().count() <= 1 && proven().all(|client| owner.is_some_and(|held| held.token == client.token))
            }),
            Property::always("runs that may be repeated never overlap", |_, world: &World| {
                world.clients.iter().filter(|client| client.runs() && !client.hold).count() <= 1
            }),
            Property::always("no key is stuck for longer than its lease", |_, world: &World| {
                let lapsed = world.store.live().is_some_and(|held| held.state == State::InProgress)
                    && world.store.silent >= LEASE;
                !lapsed || !matches!(world.store.probe(), Decision::InProgress { .. } | Decision::Replay)
            }),
        ]);
        properties.extend(reached(self));
        properties
    }
}

impl Model {
    /// What one client may do.
    fn steps_of(&self, world: &World, at: usize, client: &Client, steps: &mut Vec<Step>) {
        let left = world.left;
        match client.phase {
            Phase::Idle if left.starts > 0 => steps.push(Step::Start(at)),
            Phase::Waiting if left.again > 0 => steps.push(Step::ClaimAgain(at)),
            Phase::Running { .. } => steps.extend(self.ends.iter().map(|end| Step::End(at, *end))),
            _ => {}
        }
        if client.renews() {
            steps.push(Step::Renew(at));
        }
        match client.asked.map(|asked| (asked.reply, asked.late)) {
            Some((Some(reply), late)) => {
                if left.delays > 0 && !late {
                    steps.push(Step::DelayAnswer(at));
                }
                steps.push(Step::Hear { client: at, repeats: true });
                if client.phase == Phase::Claiming && reply == Reply::Fault {
                    steps.push(Step::Hear { client: at, repeats: false });
                }
            }
            Some((None, _)) if world.lingers(client) => steps.push(Step::GiveUp(at)),
            _ => {}
        }
        let alive = !matches!(client.phase, Phase::Idle | Phase::Waiting);
        if alive && left.crashes > 0 {
            steps.push(Step::Crash(at));
        }
        if alive && left.lags > 0 && world.is_quiet() {
            steps.push(Step::Tick { behind: Some(at) });
        }
    }
}

/// Laws that a step breaks, as properties of the state after it.
fn laws() -> Vec<Property<Model>> {
    vec![
        Property::always("a completed record never changes", |_, world: &World| {
            world.laws.keep(Law::CompletedNeverChanges)
        }),
        Property::always("strangers change nothing", |_, world: &World| world.laws.keep(Law::StrangersChangeNothing)),
        Property::always("epochs grow from owner to owner", |_, world: &World| world.laws.keep(Law::EpochsGrow)),
        Property::always("nobody gets another request's answer", |_, world: &World| {
            world.laws.keep(Law::NobodyElsesAnswer)
        }),
        Property::always("an owner that repeats its claim is recognised", |_, world: &World| {
            world.laws.keep(Law::NobodyLockedOut)
        }),
        Property::always("only the expired is purged", |_, world: &World| world.laws.keep(Law::OnlyTheExpiredIsPurged)),
        Property::always("no run without a claim", |_, world: &World| world.laws.keep(Law::NoRunWithoutClaim)),
        Property::always("no run over a recorded outcome", |_, world: &World| world.laws.keep(Law::NoRunOverAnOutcome)),
        Property::always("a record with hold sees one run", |_, world: &World| world.laws.keep(Law::HoldRunsOnce)),
    ]
}

/// What a model must come to, or it shows nothing.
fn reached(model: &Model) -> Vec<Property<Model>> {
    let scene = model.scene;
    let mut properties = vec![
        Property::sometimes("three clients are at it", |_, world: &World| {
            world.clients.iter().filter(|client| client.token != 0).count() >= 3
        }),
        Property::sometimes("an outcome is there to be replayed", |_, world: &World| {
            world.store.probe() == Decision::Replay
        }),
        Property::sometimes("a lease has lapsed", |_, world: &World| is_running(world) && world.store.silent >= LEASE),
    ];
    if scene.crashes >= 2 {
        properties.push(Property::sometimes("two clients have crashed", |_, world: &World| world.left.crashes == 0));
    }
    if scene.crashes >= 2 && model.clients.iter().all(|client| !client.hold) {
        properties.push(Property::sometimes("two leases have lapsed and were taken over", |_, world: &World| {
            world.store.live().is_some_and(|held| held.attempt >= 3)
        }));
    }
    if scene.delays > 0 {
        properties.push(Property::sometimes("an outcome came to a record that had vanished", |_, world: &World| {
            world.store.live().is_some_and(|held| held.state == State::Completed && held.epoch < world.store.life)
        }));
    }
    if model.clients.iter().any(|client| client.hold) {
        properties.push(Property::sometimes("an outcome is unknown", |_, world: &World| {
            world.store.probe() == Decision::Unknown
        }));
    }
    if model.clients.iter().any(|client| client.other) {
        properties.push(Property::sometimes("the other request has the key", |_, world: &World| {
            world.store.live().is_some_and(|held| held.other)
        }));
    }
    properties
}

fn is_running(world: &World) -> bool {
    world.store.live().is_some_and(|held| held.state == State::InProgress)
}
