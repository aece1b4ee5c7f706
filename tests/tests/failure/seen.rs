//! What the operators see: captured events and metrics of one test.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    sync::{Arc, Mutex},
};

use metrics_util::{
    MetricKind,
    debugging::{DebugValue, DebuggingRecorder, Snapshotter},
};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    subscriber::DefaultGuard,
};
use tracing_subscriber::{Layer, layer::Context, layer::SubscriberExt as _};

/// Captures what this thread reports, which in a test's own runtime is everything.
pub(crate) struct Seen {
    events: Arc<Mutex<Vec<Fields>>>,
    snapshotter: Snapshotter,
    counted: Mutex<BTreeMap<String, u64>>,
    metrics: Mutex<String>,
    _events: DefaultGuard,
    _metrics: metrics::LocalRecorderGuard<'static>,
}

/// One event's fields.
pub(crate) type Fields = BTreeMap<&'static str, String>;

impl Seen {
    pub(crate) fn start() -> Self {
        let recorder: &'static DebuggingRecorder = Box::leak(Box::new(DebuggingRecorder::new()));
        let events = Arc::<Mutex<Vec<Fields>>>::default();
        let subscriber = tracing_subscriber::registry().with(Capture(Arc::clone(&events)));
        Self {
            events,
            snapshotter: recorder.snapshotter(),
            counted: Mutex::default(),
            metrics: Mutex::default(),
            _events: tracing::subscriber::set_default(subscriber),
            _metrics: metrics::set_default_local_recorder(recorder),
        }
    }

    pub(crate) fn events(&self) -> Vec<Fields> {
        self.events.lock().unwrap().clone()
    }

    /// The terminal outcomes so far, in the order they were reported. The counters must say the same.
    pub(crate) fn outcomes(&self) -> Vec<String> {
        let events = self.events();
        let outcomes: Vec<_> = events.iter().filter_map(|event| event.get("outcome").cloned()).collect();
        let mut told = BTreeMap::<_, u64>::new();
        for event in events.iter().filter(|event| event.contains_key("outcome")) {
            *told.entry(format!("{} {}", event["outcome"], event["operation"])).or_default() += 1;
        }
        assert_eq!(self.count(), told, "events and counters");
        outcomes
    }

    fn count(&self) -> BTreeMap<String, u64> {
        let mut counted = self.counted.lock().unwrap();
        let mut metrics = self.metrics.lock().unwrap();
        // A snapshot empties the recorder.
        for (key, _, _, value) in self.snapshotter.snapshot().into_vec() {
            let _ = writeln!(metrics, "{key:?} {value:?}");
            if key.kind() == MetricKind::Counter
                && key.key().name() == "idem_requests_total"
                && let DebugValue::Counter(count) = value
            {
                let label = |name| key.key().labels().find(|label| label.key() == name).unwrap().value().to_owned();
                *counted.entry(format!("{} {}", label("outcome"), label("operation"))).or_default() += count;
            }
        }
        counted.clone()
    }

    /// Everything that was reported, as text.
    pub(crate) fn text(&self) -> String {
        self.count();
        format!("{:?}\n{}", self.events(), self.metrics.lock().unwrap())
    }

    /// Whether an error event says that this verb failed.
    pub(crate) fn tells_of(&self, verb: &str) -> bool {
        self.events().iter().any(|event| event.get("verb").is_some_and(|value| value == verb))
    }
}

struct Capture(Arc<Mutex<Vec<Fields>>>);

impl<S: Subscriber> Layer<S> for Capture {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target().starts_with("idem") {
            let mut fields = Collect(Fields::from([("level", event.metadata().level().to_string())]));
            event.record(&mut fields);
            self.0.lock().unwrap().push(fields.0);
        }
    }
}

struct Collect(Fields);

impl Visit for Collect {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}
