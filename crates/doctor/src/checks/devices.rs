//! Dynamic resource allocation: a driver that offers nothing.

use crate::finding::Finding;
use crate::observed::Observed;

/// The driver of NVIDIA's GPUs, and its classes.
const DRIVER: &str = "gpu.nvidia.com";
const CLASSES: [&str; 2] = [DRIVER, "mig.nvidia.com"];

pub(super) fn check(cluster: &Observed) -> Vec<Finding> {
    let classes = cluster.device_classes.iter().map(|class| &*class.metadata.name);
    let Some(class) = classes.into_iter().find(|name| CLASSES.contains(name)) else {
        return Vec::new();
    };
    if !cluster.resource_slices.lacks(|slice| slice.spec.driver == DRIVER) {
        return Vec::new();
    }
    let finding = Finding::problem("driver-without-slices", "the DRA driver offers no GPU");
    vec![
        finding
            .seen(format!("DeviceClass {class} is there, and no ResourceSlice of driver {DRIVER}"))
            .fix("kubectl get pods -A -o wide | grep nvidia-dra-driver   # does its kubelet plugin run?"),
    ]
}
