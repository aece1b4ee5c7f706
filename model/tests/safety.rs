//! x
use idem_model::*;
use stateright::{Checker, Model as _};
use idem_model::{client::Client, world::Verb};

#[test]
fn retry() {
    let e = |n: &str, d: u8| std::env::var(n).ok().and_then(|s| s.parse().ok()).unwrap_or(d);
    let hold = e("HOLD", 0) == 1;
    let model = Model {
        clients: vec![Client::new(hold, false); 3],
        scene: Scene { starts: e("STARTS", 4), crashes: e("CRASHES", 2), losses: e("LOSSES", 1), delays: e("DELAYS",0), doubles: e("DOUBLES", 0), again: e("AGAIN", 0), jumps: e("JUMPS", 0), lags: e("LAGS", 0), forgets: e("FORGETS", 0) },
        ends: &[Verb::Complete, Verb::Release],
        fault: Fault::None,
    };
    let t = std::time::Instant::now();
    let c = model.checker().threads(2).timeout(std::time::Duration::from_secs(60)).spawn_bfs().join();
    eprintln!("{} unique {} states depth {} in {:?} done {}", c.unique_state_count(), c.state_count(), c.max_depth(), t.elapsed(), c.is_done());
    for (n, p) in c.discoveries() { eprintln!("{n}: {} steps", p.clone().into_actions().len());
        if c.discovery_classification(n).to_string() == "counterexample" { eprintln!("{:?}", p.into_actions()); } }
}
