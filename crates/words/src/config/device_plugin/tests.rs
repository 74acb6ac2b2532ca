use super::*;
use divvy_ledger::Device;

const RECIPE: &str = "\
version: v1
sharing:
  timeSlicing:
    renameByDefault: true
    failRequestsGreaterThanOne: false
    resources:
    - name: nvidia.com/gpu
      replicas: 4  # of each card
";

#[test]
fn the_recipes_config_is_read() {
    let config = plugin_config(RECIPE).unwrap();
    let resources = vec![("nvidia.com/gpu".to_owned(), 4)];
    let by = Division::TimeSlices;
    let sharing = Some(Sharing { by, renames: true, one_each: false, resources });
    assert_eq!(config, PluginConfig { strategy: None, sharing, ignored: Vec::new() });
    assert!(is_device_plugin_config(RECIPE));
}

#[test]
fn mps_wins_and_takes_one_for_each_container() {
    let text = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}]}, \
        mps: {resources: [{name: gpu, replicas: 8}]}}";
    let config = plugin_config(text).unwrap();
    let sharing = config.sharing.unwrap();
    assert_eq!((sharing.by, sharing.one_each), (Division::Mps, true));
    assert_eq!(
        (sharing.replicas("nvidia.com/gpu"), sharing.replicas("nvidia.com/mig-1g.5gb")),
        (8, 1)
    );
    assert_eq!(config.ignored, ["sharing.timeSlicing"]);
}

#[test]
fn what_the_plugin_passes_over_is_listed() {
    let text = "resources: {gpus: []}\nflags: {migStrategy: mixed}\nsharing:\n  timeslicing: {}\n  \
        timeSlicing: {resources: [{name: gpu, replicas: 2, rename: mine, devices: [0], replica: 3}]}";
    let config = plugin_config(text).unwrap();
    assert_eq!(config.strategy, Some(MigStrategy::Mixed));
    let entry = "sharing.timeSlicing.resources[0]";
    let expected = [
        "resources",
        "sharing.timeslicing",
        &format!("{entry}.replica"),
        &format!("{entry}.rename"),
        &format!("{entry}.devices"),
    ];
    assert_eq!(config.ignored, expected);
    assert_eq!(plugin_config("").unwrap(), PluginConfig::default());
}

#[test]
fn what_is_wrong_is_said_with_field_value_and_what_is_allowed() {
    let slices = |inner: &str| format!("sharing: {{timeSlicing: {{{inner}}}}}");
    let entry = |inner: &str| slices(&format!("resources: [{{{inner}}}]"));
    for (text, expected) in [
        ("version: v2".to_owned(), "version: \"v2\"; allowed is v1"),
        ("- a".to_owned(), "the config: a list is given; allowed is a map"),
        (
            "flags: {migStrategy: both}".to_owned(),
            "flags.migStrategy: \"both\"; allowed are none, single and mixed",
        ),
        (
            slices("resources: []"),
            "sharing.timeSlicing.resources: a list is given; allowed is a list of resources, each with name and replicas",
        ),
        (
            slices("renameByDefault: true"),
            "sharing.timeSlicing.resources: missing; allowed is a list of resources, each with name and replicas",
        ),
        (
            slices("renameByDefault: yes please"),
            "sharing.timeSlicing.renameByDefault: \"yes please\"; allowed are true and false",
        ),
        (
            entry("name: gpu, replicas: 1"),
            "sharing.timeSlicing.resources[0].replicas: 1; allowed are whole numbers from 2",
        ),
        (
            entry("name: gpu"),
            "sharing.timeSlicing.resources[0].replicas: missing; allowed are whole numbers from 2",
        ),
        (
            entry("replicas: 2"),
            "sharing.timeSlicing.resources[0].name: missing; allowed are resources such as nvidia.com/gpu",
        ),
        (
            entry("name: GPU!, replicas: 2"),
            "sharing.timeSlicing.resources[0].name: \"GPU!\"; allowed are resources of nvidia.com, up to 63 characters",
        ),
        (
            entry("name: gpu, replicas: 2, devices: some"),
            "sharing.timeSlicing.resources[0].devices: \"some\"; allowed are all, a number and a list",
        ),
    ] {
        assert_eq!(plugin_config(&text).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn other_texts_are_not_taken_for_configs() {
    for text in ["", "a: 1", "timestamps: mps", "mps: {a: 1}", "sharing: yes", "kind: Pod", "{"] {
        assert!(!is_device_plugin_config(text), "{text}");
    }
    assert!(is_device_plugin_config("sharing:\n\ttimeSlicing:"), "a slip is still one");
}

#[test]
fn a_node_gets_the_config_that_its_label_names_else_the_only_one_else_the_default() {
    let config = |replicas: u32, fails: bool| {
        format!(
            "sharing: {{timeSlicing: {{failRequestsGreaterThanOne: {fails}, resources: [{{name: \
             nvidia.com/gpu, replicas: {replicas}}}]}}}}"
        )
    };
    let configs = |named: &[(&str, String)]| {
        PluginConfigs::read(named.iter().map(|(name, text)| (*name, text.as_str()))).unwrap()
    };
    let gpus = |replicas| {
        let pool = Pool { replicas, ..Pool::of(Device::Gpu, 32) };
        Gpus { pools: vec![pool], ..Gpus::none() }
    };
    let strict = || ("strict", config(4, true));
    let one = configs(&[strict()]);
    assert!(one.give_one_each(None, &gpus(4)), "the only one");
    assert!(!one.give_one_each(Some("other"), &gpus(4)), "its label names another");
    assert!(!one.give_one_each(None, &gpus(2)), "the node has another one, or has it not yet");
    assert!(!one.give_one_each(None, &Gpus::cards(8, 8, None)), "its cards are whole");
    let two = configs(&[strict(), ("lax", config(4, false))]);
    assert!(!two.give_one_each(None, &gpus(4)), "nobody says which");
    assert!(two.give_one_each(Some("strict"), &gpus(4)));
    assert!(!two.give_one_each(Some("lax"), &gpus(4)));
    let usual = configs(&[strict(), ("default", config(4, true))]);
    assert!(usual.give_one_each(None, &gpus(4)));
    let why = PluginConfigs::read([("any", "sharing: [1]")].into_iter()).unwrap_err().to_string();
    assert!(why.starts_with("data[\"any\"]: sharing: "), "{why}");
}
