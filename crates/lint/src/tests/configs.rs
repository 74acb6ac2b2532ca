//! Configs of the device plugin and the MIG manager.

use super::{found, names, stays};

fn map(name: &str, config: &str) -> String {
    let config = config.replace('\n', "\n    ");
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata:\n  {name}: |\n    {config}\n"
    )
}

const SLICES: &str = "version: v1\nsharing:\n  timeSlicing:\n    renameByDefault: true\n    resources:\n    - name: \
                      nvidia.com/gpu\n      replicas: 4";

#[test]
fn time_slicing_that_cannot_work_is_named() {
    assert_eq!(found(&map("any", SLICES)), []);
    let finding = stays("DevicePluginConfig", &map("any", &SLICES.replace("4", "1")));
    assert_eq!(finding.field, "data[\"any\"]");
    assert!(
        finding.message.contains("replicas: 1; allowed are whole numbers from 2"),
        "{}",
        finding.message
    );
    let finding =
        stays("DevicePluginConfig", &map("any", &SLICES.replace("renameByDefault", "rename")));
    assert!(
        finding.message.contains("passes over sharing.timeSlicing.rename"),
        "{}",
        finding.message
    );
}

#[test]
fn replicas_with_a_name_that_no_pod_asks_for_are_named() {
    let pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, resources: {limits: \
               {nvidia.com/gpu: 1}}}]}\n";
    stays("RenamedResource", &format!("{}{pod}", map("any", SLICES)));
    let shared = pod.replace("nvidia.com/gpu:", "nvidia.com/gpu.shared:");
    assert_eq!(found(&format!("{}{shared}", map("any", SLICES))), []);
}

#[test]
fn a_default_that_the_config_map_does_not_have_is_named() {
    let policy = |default: &str| {
        format!(
            "---\napiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {{name: p}}\nspec: {{devicePlugin: {{config: \
             {{name: m, default: {default}}}}}}}\n"
        )
    };
    let finding = stays("DefaultConfig", &format!("{}{}", map("any", SLICES), policy("all")));
    assert_eq!(finding.next, "write one of any");
    assert_eq!(found(&format!("{}{}", map("any", SLICES), policy("any"))), []);
}

#[test]
fn mig_that_cannot_be_is_named() {
    let config = |slices: &str| {
        map(
            "config.yaml",
            &format!(
                "version: v1\nmig-configs:\n  mixed:\n  - devices: all\n    mig-enabled: true\n    \
                                     mig-devices: {{{slices}}}"
            ),
        )
    };
    assert_eq!(found(&config("3g.40gb: 2")), []);
    let finding = stays("MigConfig", &config("3g.40gb: 2, 1g.10gb: 1"));
    assert!(
        finding.message.contains("config mixed cannot be: on A100-80GB no room for 1g.10gb"),
        "{}",
        finding.message
    );
    stays("MigConfig", &config("1g.10gb: many"));
    assert_eq!(
        names(include_str!("../../../../examples/partitions/recipe-mig.yaml")),
        ["MigConfig"]
    );
}
