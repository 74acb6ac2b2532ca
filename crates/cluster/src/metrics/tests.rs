use super::*;

/// The text without the buckets of histograms.
fn text(metrics: &Metrics) -> String {
    let lines = metrics.text();
    lines.lines().filter(|line| !line.contains("_bucket{")).fold(String::new(), |all, line| {
        all + &line.replace(env!("CARGO_PKG_VERSION"), "VERSION") + "\n"
    })
}

/// Something of everything.
fn filled() -> Metrics {
    let metrics = Metrics::new();
    metrics.attempt(Attempt::Scheduled);
    metrics.attempt(Attempt::Unschedulable);
    metrics.binding(BindingResult::Bound, Duration::from_millis(4));
    metrics.binding(BindingResult::Conflict, Duration::from_millis(8));
    metrics.bound(Duration::from_secs(1));
    metrics.request(Verb::Create, Some(201));
    metrics.request(Verb::Watch, None);
    metrics.watch_restart("pods", Restart::Expired);
    metrics.event_written();
    metrics.config_reload(true);
    metrics.pass(Duration::from_micros(250));
    metrics.set_pending([("NoGpu", 2), ("NodeAffinity", 1)]);
    metrics.set_pending([("NoGpu", 3)]);
    metrics.set_ledger(&Totals {
        nodes: 2,
        held_pods: 5,
        free: 1,
        whole: 2,
        shared: 3,
        closed: 4,
        sliced: 5,
        slices: 20,
        slices_taken: 7,
        disputed: 1,
        unsettled: 1,
        capacity_bytes: 800,
        held_bytes: 500,
        in_use_bytes: 600,
        fragmented_bytes: 60,
        stranded_bytes: 20,
        unguarded: 2,
        ..Totals::default()
    });
    metrics.set_slices(&[SliceTotals {
        resource: "nvidia.com/mig-1g.10gb".to_owned(),
        kind: Some("mig"),
        profile: Some("1g.10gb".to_owned()),
        total: 7,
        taken: 3,
        nodes: 1,
    }]);
    metrics.set_models(&BTreeMap::from([(
        "NVIDIA-A100-SXM4-80GB",
        Totals { capacity_bytes: 800, held_bytes: 500, in_use_bytes: 600, ..Totals::default() },
    )]));
    metrics.set_nodes(&[("a100-1", Totals { capacity_bytes: 640, ..Totals::default() })]);
    metrics.set_queues(
        &[QueueUse { queue: Some("team-a"), pods: 2, ..QueueUse::default() }],
        Instant::now(),
    );
    metrics.set_oldest_pending(Some(1_767_225_600));
    metrics.set_queued_writes(7);
    metrics.set_leader(true);
    metrics.set_synced("pods", true);
    metrics.set_synced("nodes", false);
    metrics.set_watch_version("pods", 41_907);
    metrics
}

#[test]
fn everything_that_is_recorded_is_in_the_text() {
    // Families are kept in no order.
    let mut lines: Vec<_> = text(&filled()).lines().map(str::to_owned).collect();
    lines.sort();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn queues_have_so_many_series_at_most_and_those_that_are_gone_have_none() {
    let metrics = Metrics::new();
    let names: Vec<String> = (0..200).map(|n| format!("team-{n:03}")).collect();
    let queue = |name: &'static str| QueueUse { queue: Some(name), pods: 1, ..QueueUse::default() };
    let all =
        names.iter().map(|name| QueueUse { queue: Some(name), pods: 2, ..QueueUse::default() });
    let now = Instant::now();
    metrics.set_queues(&all.collect::<Vec<_>>(), now);
    let text = metrics.text();
    assert_eq!(text.matches("divvy_queue_pods{").count(), queues::MOST + 1);
    assert!(text.contains("divvy_queue_pods{queue=\"(others)\"} 272\n"), "{text}");
    metrics.set_queues(&[queue("team-000"), queue("team-001")], now);
    assert_eq!(metrics.text().matches("divvy_queue_pods{").count(), 2);
    assert_eq!(metrics.text().matches("divvy_queue_gpus{").count(), 2);
}

/// The queues with series.
fn queues(metrics: &Metrics) -> BTreeSet<String> {
    let text = metrics.text();
    let names = text.lines().filter_map(|line| line.strip_prefix("divvy_queue_pods{queue=\""));
    names.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

#[test]
fn pods_that_are_labelled_anew_all_day_make_few_series() {
    let metrics = Metrics::new();
    let begin = Instant::now();
    let waits = |pending| QueueUse { queue: Some("waits"), pending, ..QueueUse::default() };
    let mut seen = BTreeSet::new();
    // A tenant whose pods name another queue each time that somebody looks: for a day.
    for nth in 0..5760_u32 {
        let names = [0, 1].map(|pod| format!("q-{nth}-{pod}"));
        let holds = |name| QueueUse { queue: Some(name), pods: 1, ..QueueUse::default() };
        let all = [holds(&*names[0]), holds(&names[1]), waits(7)];
        metrics.set_queues(&all, begin + Duration::from_secs(15) * nth);
        let now = queues(&metrics);
        assert!(now.len() <= 2 && !now.contains("waits"), "{now:?}");
        seen.extend(now);
    }
    assert!(seen.len() <= 64 * 25, "{} series in a day", seen.len());
}

#[test]
fn models_have_so_many_series_at_most_and_the_others_are_one_together() {
    let metrics = Metrics::new();
    let names: Vec<String> = (0..200).map(|n| format!("model-{n:03}")).collect();
    let of = |capacity_bytes| Totals { capacity_bytes, ..Totals::default() };
    metrics.set_models(&names.iter().map(|name| (&**name, of(2))).collect());
    let text = metrics.text();
    let capacity = |model: &str, bytes: u32| {
        format!("divvy_model_memory_bytes{{model=\"{model}\",kind=\"capacity\"}} {bytes}\n")
    };
    assert_eq!(text.matches("kind=\"capacity\"} 2\n").count(), MOST_MODELS, "{text}");
    assert!(text.contains(&capacity("(others)", 272)), "{text}");
    metrics.set_models(&BTreeMap::from([("one", of(3))]));
    assert_eq!(metrics.text().matches("divvy_model_memory_bytes{").count(), 5);
    assert!(metrics.text().contains(&capacity("one", 3)));
}

#[test]
fn each_node_has_the_memory_of_its_cards_as_long_as_it_is_there() {
    let metrics = Metrics::new();
    let of = |held_bytes| Totals { held_bytes, in_use_bytes: 80, ..Totals::default() };
    metrics.set_nodes(&[("a", of(40)), ("b", of(0))]);
    let text = metrics.text();
    let held = |node: &str| format!("divvy_node_memory_bytes{{node=\"{node}\",kind=\"held\"}} ");
    assert!(text.contains(&(held("a") + "40\n")) && text.contains(&(held("b") + "0\n")), "{text}");
    metrics.set_nodes(&[("b", of(0))]);
    assert_eq!(metrics.text().matches("divvy_node_memory_bytes{").count(), 5);
}

#[test]
fn every_name_begins_with_divvy() {
    for line in text(&Metrics::new()).lines().filter(|line| *line != "# EOF") {
        let mut words = line.split(' ').skip_while(|word| word.len() <= 4);
        assert!(words.next().is_some_and(|name| name.starts_with("divvy_")), "{line}");
    }
}

#[test]
fn every_metric_is_in_the_docs_with_its_labels() {
    let docs = include_str!("../../../../docs/operations.md");
    let text = text(&filled());
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        let suffix = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let series = text.lines().find_map(|line| line.strip_prefix(&format!("{name}{suffix}{{")));
        let labels = series.map(|series| {
            let labels = series.split("\",").map(|label| label.split('=').next().unwrap());
            format!("{{{}}}", labels.collect::<Vec<_>>().join(","))
        });
        let written = format!("`{name}{suffix}{}`", labels.unwrap_or_default());
        let row = docs.lines().find(|row| row.starts_with('|') && row.contains(&written));
        assert!(row.is_some_and(|row| row.contains(&format!("| {kind} |"))), "{written}");
    }
}

#[test]
fn a_reason_that_no_pod_has_any_more_falls_to_zero() {
    let metrics = Metrics::new();
    metrics.set_pending([("NoGpu", 2)]);
    metrics.set_pending([]);
    assert!(metrics.text().contains("divvy_pending_pods{reason=\"NoGpu\"} 0\n"));
}
