use super::*;
use divvy_ledger::mig::listed;
use proptest::prelude::*;

const RECIPE: &str = include_str!("../../../../../examples/mig/sharing-config.yaml");

fn names(configs: &[MigConfig]) -> Vec<&str> {
    configs.iter().map(|config| config.name.as_str()).collect()
}

#[test]
fn the_config_map_of_the_recipe_is_read_as_it_is() {
    let configs = mig_configs(RECIPE).unwrap();
    assert_eq!(names(&configs), ["all-1g.10gb", "inference-optimized", "mixed-workload"]);
    let mixed = &configs[2].entries[0];
    assert_eq!((mixed.enabled, &mixed.devices), (true, &CardIndexes::All));
    assert_eq!(listed(&mixed.profiles), "2 x 1g.10gb, 1 x 2g.20gb, 1 x 3g.40gb");
}

#[test]
fn files_lists_and_other_objects_beside_them_are_read() {
    let file = "version: v1\nmig-configs: {a: [{devices: [0, 3], device-filter: '0x20B210DE', \
        mig-enabled: true, mig-devices: {1g.10gb+me: 1}}], off: [{devices: all, mig-enabled: false}]}";
    let configs = mig_configs(file).unwrap();
    assert_eq!(configs[0].entries[0].devices, CardIndexes::These(vec![0, 3]));
    assert_eq!(configs[0].entries[0].filter, ["0x20B210DE"]);
    assert!(!configs[1].entries[0].enabled);
    let inside: String = file.lines().map(|line| format!("      {line}\n")).collect();
    let list = format!(
        "kind: List\nitems:\n- {{kind: Service}}\n- kind: ConfigMap\n  data:\n    x: |\n{inside}"
    );
    assert_eq!(mig_configs(&list).unwrap(), configs);
    assert_eq!(mig_configs(&format!("kind: Pod\n---\n{file}")).unwrap(), configs);
}

#[test]
fn each_mistake_names_field_value_and_what_is_allowed() {
    let entry = |fields: &str| format!("version: v1\nmig-configs: {{a: [{{{fields}}}]}}");
    let plain = "devices: all, mig-enabled: true, mig-devices: ";
    for (text, told) in [
        ("mig-configs: {a: []}".to_owned(), "version: missing; allowed is v1"),
        ("version: v2\nmig-configs: {}".to_owned(), "version: \"v2\"; allowed is v1"),
        (
            "version: v1\nmig-configs: {}".to_owned(),
            "mig-configs: a map is given; allowed is a map \
            from names to lists of entries",
        ),
        (
            "version: v1\nmig-configs: {a: []}".to_owned(),
            "mig-configs.a: 0 are given; allowed is a \
            list of 1 to 64",
        ),
        (
            entry("devices: all"),
            "mig-configs.a[0].mig-enabled: missing; allowed are true and false",
        ),
        (
            entry("devices: some, mig-enabled: true"),
            "mig-configs.a[0].devices: \"some\"; allowed \
            are all and a list of numbers",
        ),
        (
            entry("devices: [-1], mig-enabled: true"),
            "mig-configs.a[0].devices: allowed are the \
            numbers of cards, from 0",
        ),
        (
            entry("devices: all, mig-enabled: true"),
            "mig-configs.a[0].mig-devices: missing; allowed \
            is a map of profiles, empty for none",
        ),
        (
            entry("devices: all, mig-enabled: false, mig-devices: {1g.10gb: 1}"),
            "mig-configs.a[0].\
            mig-devices: a map is given; allowed is no profile where mig-enabled is false",
        ),
        (
            entry(&format!("{plain}{{1g: 1}}")),
            "mig-configs.a[0].mig-devices[\"1g\"]: no profile; \
            allowed are names such as 1g.10gb, 3g.40gb, 1g.10gb+me and 1c.3g.40gb",
        ),
        (
            entry(&format!("{plain}{{1g.10gb.me: 1}}")),
            "mig-configs.a[0].mig-devices[\"1g.10gb.me\"]\
            : no profile; allowed are names such as 1g.10gb, 3g.40gb, 1g.10gb+me and 1c.3g.40gb; \
            this one is written \"1g.10gb+me\" here",
        ),
        (
            entry(&format!("{plain}{{1g.10gb: 0}}")),
            "mig-configs.a[0].mig-devices[\"1g.10gb\"]: 0; \
            allowed are whole numbers from 1 to 49",
        ),
        (
            entry("device-filter: A100, devices: all, mig-enabled: false"),
            "mig-configs.a[0].\
            device-filter: \"A100\"; allowed is a PCI id of device and vendor such as \
            \"0x20B210DE\", or a list",
        ),
        (
            entry("device: all, mig-enabled: false"),
            "mig-configs.a[0].device: unknown field; allowed \
            are devices, device-filter, mig-enabled, mig-devices",
        ),
    ] {
        assert_eq!(mig_configs(&text).unwrap_err().to_string(), told, "{text}");
    }
    assert_eq!(mig_configs("kind: Pod").unwrap(), []);
    let twice = format!("{RECIPE}\n---\n{RECIPE}");
    let told = mig_configs(&twice).unwrap_err().to_string();
    assert_eq!(told, "data[\"config.yaml\"]: mig-configs.all-1g.10gb: given twice");
}

fn partition() -> impl Strategy<Value = MigConfig> {
    let cards = proptest::collection::vec(0u32..16, 1..4);
    let devices = prop_oneof![Just(CardIndexes::All), cards.prop_map(CardIndexes::These)];
    let profiles = ["1g.10gb", "1g.10gb+me", "1g.24gb-me", "3g.40gb"];
    let profiles = proptest::sample::subsequence(profiles.to_vec(), 1..4).prop_map(|names| {
        names.iter().map(|name| (Profile::from_config(name).unwrap(), 2)).collect()
    });
    let entry = (devices, profiles, any::<bool>()).prop_map(|(devices, profiles, filtered)| {
        let filter = if filtered { vec!["0x20B210DE".to_owned()] } else { Vec::new() };
        MigEntry { filter, devices, enabled: true, profiles }
    });
    proptest::collection::vec(entry, 1..3)
        .prop_map(|entries| MigConfig { name: "divvy-1".to_owned(), entries })
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(partition in partition()) {
        let text = mig_configs_text(std::slice::from_ref(&partition));
        prop_assert_eq!(mig_configs(&text).unwrap(), vec![partition]);
    }

    #[test]
    fn no_text_panics(noise in ".{0,60}", at in 0usize..600) {
        let mut text = RECIPE.to_owned();
        let at = text.floor_char_boundary(at);
        text.insert_str(at, &noise);
        let _ = mig_configs(&text);
        let _ = mig_configs(&noise);
    }
}
