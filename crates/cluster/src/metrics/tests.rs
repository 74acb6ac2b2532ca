use super::*;
use divvy_engine::{Config, Event, NodeRecord, PodKey, PodRecord, PodSpec, Scheduler};
use divvy_ledger::{Bytes, Fraction, Gpus, MilliCpu, Part, Portion, Request};
use divvy_words::{Metadata, PodManifest, Priorities, pod};

/// The text without the buckets of histograms.
fn text(metrics: &Metrics) -> String {
    let lines = metrics.text();
    lines.lines().filter(|line| !line.contains("_bucket{")).fold(String::new(), |all, line| {
        all + &line.replace(env!("CARGO_PKG_VERSION"), "VERSION") + "\n"
    })
}

#[test]
fn everything_that_is_recorded_is_in_the_text() {
    let metrics = Metrics::new();
    metrics.attempt(Attempt::Scheduled);
    metrics.attempt(Attempt::Unschedulable);
    metrics.binding(Binding::Bound, Duration::from_millis(4));
    metrics.binding(Binding::Conflict, Duration::from_millis(8));
    metrics.bound(Duration::from_secs(1));
    metrics.request(Verb::Create, Some(201));
    metrics.request(Verb::Watch, None);
    metrics.watch_restart("pods", Restart::Expired);
    metrics.event_written();
    metrics.config_reload(true);
    metrics.pass(Duration::from_micros(250));
    metrics.set_pending([("NoGpu", 2), ("NodeAffinity", 1)]);
    metrics.set_pending([("NoGpu", 3)]);
    metrics.set_ledger(&LedgerTotals {
        nodes: 2,
        held_pods: 5,
        free: 1,
        whole: 2,
        shared: 3,
        closed: 4,
        disputed: 1,
        unsettled: 1,
        capacity: 800,
        held: 500,
        stranded: 20,
    });
    metrics.set_queued_writes(7);
    metrics.set_leader(true);
    metrics.set_synced("pods", true);
    metrics.set_synced("nodes", false);
    metrics.set_watch_version("pods", 41_907);
    // Families are kept in no order.
    let mut lines: Vec<_> = text(&metrics).lines().map(str::to_owned).collect();
    lines.sort();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn every_name_begins_with_divvy() {
    for line in text(&Metrics::new()).lines().filter(|line| *line != "# EOF") {
        let mut words = line.split(' ').skip_while(|word| word.len() <= 4);
        assert!(words.next().is_some_and(|name| name.starts_with("divvy_")), "{line}");
    }
}

#[test]
fn every_metric_is_in_the_docs() {
    let docs = include_str!("../../../../docs/operations.md");
    for line in Metrics::new().text().lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        let suffix = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let row = docs.lines().find(|row| {
            row.starts_with(&format!("| `{name}{suffix}`"))
                || row.starts_with(&format!("| `{name}{suffix}{{"))
        });
        assert!(row.is_some_and(|row| row.contains(&format!("| {kind} |"))), "{name}");
    }
}

#[test]
fn a_reason_that_no_pod_has_any_more_falls_to_zero() {
    let metrics = Metrics::new();
    metrics.set_pending([("NoGpu", 2)]);
    metrics.set_pending([]);
    assert!(metrics.text().contains("divvy_pending_pods{reason=\"NoGpu\"} 0\n"));
}

const GIB: u64 = 1 << 30;

fn node(name: &str, count: u32, memory: Option<Bytes>) -> NodeRecord {
    NodeRecord {
        name: name.to_owned(),
        cpu: MilliCpu(64_000),
        memory: Bytes(256 * GIB),
        pods: 110,
        gpus: Gpus::cards(count, count, memory),
        ..NodeRecord::default()
    }
}

fn set(scheduler: &mut Scheduler, record: NodeRecord) {
    scheduler.apply(Event::Node(Box::new(record))).unwrap();
}

fn place(scheduler: &mut Scheduler, name: &str, request: Request) {
    let blank =
        pod(&Metadata::default(), &PodManifest::default(), None, None, &Priorities::default());
    let spec = PodSpec { request, ..PodSpec::default() };
    let record = PodRecord { key: PodKey::new("ml", name), spec, invalid: None, ..blank };
    scheduler.apply(Event::Pod(Box::new(record))).unwrap();
    scheduler.pass(usize::MAX);
}

fn share(fraction: &str) -> Request {
    Request::share(1, Part::of(Portion::Fraction(Fraction::parse(fraction).unwrap())))
}

#[test]
fn totals_count_each_card_in_one_state_and_each_byte_once() {
    let mut scheduler = Scheduler::new(Config::default());
    set(&mut scheduler, node("a", 4, Some(Bytes(80 * GIB))));
    place(&mut scheduler, "one", Request::whole(1));
    place(&mut scheduler, "two", share("0.8"));
    set(&mut scheduler, node("b", 2, None));
    let totals = LedgerTotals::of(&scheduler);
    assert_eq!((totals.nodes, totals.held_pods), (2, 2));
    assert_eq!((totals.free, totals.whole, totals.shared, totals.closed), (4, 1, 1, 0));
    assert_eq!(totals.capacity, 320 * GIB, "cards of unknown memory have no bytes");
    assert_eq!(totals.held, 144 * GIB);
    // A fifth is too little for the only share that is known.
    assert_eq!(totals.stranded, 16 * GIB);

    // Other cards from now on: the shared one has the old size and takes nobody new.
    set(&mut scheduler, node("a", 3, Some(Bytes(40 * GIB))));
    let totals = LedgerTotals::of(&scheduler);
    let cards = totals.free + totals.whole + totals.shared + totals.closed;
    assert_eq!((cards, totals.closed), (5, 1), "{totals:?}");
}
