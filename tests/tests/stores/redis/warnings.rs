//! What is said at start about settings that lose records.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use idem_runtime::store::RedisStore;
use idem_tests::redis::RedisServer;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use super::{claim, owner};

/// Keeps the text of warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN && metadata.target().starts_with("idem_runtime")
    }
    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        use fmt::Write as _;
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

/// The store that `url` gives and the warnings that come with it.
async fn connect(url: String) -> (RedisStore, Vec<String>) {
    let warnings = Warnings::default();
    // The test's runtime is this thread alone.
    let guard = tracing::subscriber::set_default(warnings.clone());
    let store = RedisStore::connect(url).await.expect("connect");
    drop(guard);
    let warnings = warnings.0.lock().unwrap().clone();
    (store, warnings)
}

#[tokio::test]
async fn a_safe_server_gives_none() {
    let Some(server) = RedisServer::start(&["--appendonly", "yes"]).await else { return };
    let (_, warnings) = connect(server.url()).await;
    assert_eq!(warnings, [""; 0]);
}

#[tokio::test]
async fn an_evicting_policy_and_no_append_only_file_give_one_each() {
    let Some(server) = RedisServer::start(&["--maxmemory-policy", "allkeys-lru"]).await else { return };
    let (_, warnings) = connect(server.url()).await;
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("allkeys-lru") && warnings[0].contains("noeviction"), "{warnings:?}");
    assert!(warnings[1].contains("appendonly"), "{warnings:?}");
}

#[tokio::test]
async fn what_cannot_be_checked_is_said() {
    let Some(server) = RedisServer::start(&["--appendonly", "yes"]).await else { return };
    // The access rules that the store's documentation asks for, without INFO.
    let allowed = "time get getrange strlen set setrange del publish unlink eval evalsha subscribe";
    let mut rules = redis::cmd("ACL");
    rules.arg(&["SETUSER", "shop", "on", ">word", "-@all", "~idem:*", "&idem:settled"]);
    for command in allowed.split(' ') {
        rules.arg(format!("+{command}"));
    }
    let () = server.run(&rules).await;
    let (store, warnings) = connect(format!("redis://shop:word@{}", server.address())).await;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("could not be checked") && !warnings[0].contains("word@"), "{warnings:?}");
    owner(&store, &claim(1, 1)).await;
}
