#![allow(clippy::unwrap_used)]

use super::*;

fn what_is_meant(place: PodField, key: &str) -> Option<&'static str> {
    mistake(place, key)?.meant.map(|(_, meant)| meant)
}

#[test]
fn what_is_read_is_no_mistake_where_it_is_read() {
    for (place, key) in KNOWN {
        assert_eq!(mistake(place, key), None, "{key}");
    }
}

#[test]
fn a_slip_of_the_keyboard_is_told_from_a_name_of_somebody_else() {
    use PodField::{Annotations, Labels, Resources};
    for (place, key, meant) in [
        (Annotations, "gpu-fractions", Some(keys::GPU_FRACTION)),
        (Annotations, "gpu_fraction", Some(keys::GPU_FRACTION)),
        (Annotations, "nvidia.com/gpu-fraction", Some(keys::GPU_FRACTION)),
        (Annotations, "kai.scheduler/gpu-fraction", Some(keys::GPU_FRACTION)),
        (Annotations, "GPU-Fraction", Some(keys::GPU_FRACTION)),
        (Annotations, "gpu-fracton", Some(keys::GPU_FRACTION)),
        (Annotations, "gup-fraction", Some(keys::GPU_FRACTION)),
        (Annotations, "gpufraction", Some(keys::GPU_FRACTION)),
        (Annotations, "gpu-fraction-num-device", Some(keys::FRACTION_DEVICES)),
        (Annotations, "gpu-fraction-container", Some(keys::FRACTION_CONTAINER)),
        (Annotations, "gpu-memroy", Some(keys::GPU_MEMORY)),
        (Annotations, "gpu-mem", Some(keys::GPU_MEMORY)),
        (Annotations, "MPS", Some(keys::MPS)),
        (Annotations, "scheduling.run.ai/scheduling-stategy", Some(keys::STRATEGY)),
        (Annotations, "scheduling-strategy", Some(keys::STRATEGY)),
        (Annotations, "kai.scheduler/scheduling-strategy", Some(keys::STRATEGY)),
        (Annotations, "koordinator.sh/gpu-isolation-provider", Some(keys::ISOLATION_PROVIDER)),
        (Labels, "gpu-fraction", Some(keys::GPU_FRACTION)),
        (Labels, "gpu-fractions", Some(keys::GPU_FRACTION)),
        (Labels, "kai.scheduler/queues", Some("kai.scheduler/queue")),
        (Labels, "run.ai/queue", Some("runai/queue")),
        (Labels, "koordinator.sh/gpu-share-isolation-levels", Some(keys::ISOLATION_LEVEL)),
        (Labels, "koordinator.sh/gpu-isolation-level", Some(keys::ISOLATION_LEVEL)),
        (Labels, "gpu-isolation-provider", Some(keys::ISOLATION_PROVIDER)),
        (Resources, "nvidia.com/gpus", Some(keys::GPU)),
        (Resources, "nvidia.com/GPU", Some(keys::GPU)),
        (Resources, "nvidia/gpu", Some(keys::GPU)),
        (Resources, "gpu", Some(keys::GPU)),
        (Resources, "gpu-fraction", Some(keys::GPU_FRACTION)),
        (Resources, "nvidia.com/gpu-fraction", Some(keys::GPU_FRACTION)),
        (Resources, "nvidia.com/gpu-memory", Some(keys::GPU_MEMORY)),
        (Resources, "koordinator.sh/gpu-memory-ration", Some(keys::KOORDINATOR_RATIO)),
        (Annotations, "cpu-memory", None),
        (Annotations, "example.com/gpu-fraction", None),
        (Annotations, "gpu-model", None),
        (Annotations, "gpu-type", None),
        (Annotations, "maps", None),
        (Annotations, "pod-group", None),
        (Labels, "kueue.x-k8s.io/queue-name", None),
        (Labels, "queue", None),
        (Labels, "gpu", None),
        (Labels, "nvidia.com/gpu.memory", None),
        (Labels, "nvidia.com/gpu.product", None),
        (Labels, "app", None),
        (Resources, "nvidia.com/gpu.shared", None),
        (Resources, "nvidia.com/mig-1g.10gb", None),
        (Resources, "amd.com/gpu", None),
        (Resources, "cpu", None),
        (Resources, "memory", None),
        (Resources, "hugepages-2Mi", None),
    ] {
        assert_eq!(what_is_meant(place, key), meant, "{place} {key}");
    }
}

#[test]
fn the_recipes_annotation_and_resources_of_other_projects_are_named() {
    let named = |place, key: &str| mistake(place, key).map(|mistake| mistake.name);
    assert_eq!(named(PodField::Annotations, keys::GPU_SHARING), Some(SHARING_ANNOTATION));
    for key in ["nvidia.com/gpumem", "volcano.sh/vgpu-cores", "aliyun.com/gpu-mem"] {
        assert_eq!(named(PodField::Resources, key), Some(FOREIGN_RESOURCE), "{key}");
    }
}

#[test]
fn the_name_of_a_scheduler_may_be_nearly_ours() {
    assert_eq!(scheduler("kai-schedular"), Some("kai-scheduler"));
    assert_eq!(scheduler("divvy_scheduler"), Some("divvy-scheduler"));
    for other in ["kai-scheduler", "default-scheduler", "volcano", "", "hami-scheduler"] {
        assert_eq!(scheduler(other), None, "{other}");
    }
}
