//! The recipe's DeviceClass and ResourceClaimTemplate.

use super::{becomes, found, mended, names, stays};

const RECIPE: &str = "apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: nvidia.com/shared-gpu
spec:
  selectors:
  - cel:
      expression: 'device.driver == \"nvidia.com/gpu\"' # all of them
  config:
    opaque:
      driver: nvidia.com/gpu
      parameters:
        sharing:
          strategy: TimeSlicing
          replicas: 4
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: shared-gpu-claim
  namespace: ml-training
spec:
  spec:
    devices:
      requests:
      - name: gpu
        # of this class
        deviceClassName: nvidia.com/shared-gpu
        count: 1
";

const VALID: &str = "apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: shared-gpu.nvidia.com
spec:
  selectors:
  - cel:
      expression: 'device.driver == \"gpu.nvidia.com\"' # all of them
  config:
    - opaque:
        driver: gpu.nvidia.com
        parameters:
          apiVersion: resource.nvidia.com/v1beta1
          kind: GpuConfig
          sharing:
            strategy: TimeSlicing
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: shared-gpu-claim
  namespace: ml-training
spec:
  spec:
    devices:
      requests:
      - name: gpu
        # of this class
        exactly:
          deviceClassName: shared-gpu.nvidia.com
          count: 1
";

#[test]
fn step_nine_of_the_recipe_becomes_objects_that_are_accepted() {
    let all = [
        "DeviceClassName",
        "DeviceDriver",
        "DeviceConfigList",
        "DeviceDriver",
        "DeviceParameters",
        "DeviceParameters",
    ];
    assert_eq!(names(RECIPE), [&all[..], &["DeviceRequest", "DeviceClassName"]].concat());
    assert_eq!(mended(RECIPE), (VALID.to_owned(), vec![]));
}

#[test]
fn requests_in_other_styles_are_mended_too() {
    let claim = |request: &str| {
        format!(
            "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {{name: c}}\nspec:\n  devices:\n    requests:\n    - \
             {request}\n"
        )
    };
    becomes(
        "DeviceRequest",
        &claim("{name: gpu, deviceClassName: gpu.nvidia.com}"),
        &claim("{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}"),
    );
    becomes(
        "DeviceRequest",
        &claim("deviceClassName: gpu.nvidia.com\n      count: 1\n      name: gpu"),
        &claim(
            "exactly:\n        deviceClassName: gpu.nvidia.com\n        count: 1\n      name: gpu",
        ),
    );
    let old = claim("{name: gpu, deviceClassName: gpu.nvidia.com}").replace("/v1\n", "/v1beta1\n");
    assert_eq!(found(&old), []);
}

/// A class with these parameters of NVIDIA's driver.
fn class(parameters: &str) -> String {
    format!(
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata:\n  name: c.example.com\nspec:\n  config:\n  - opaque:\n      \
         driver: gpu.nvidia.com\n      parameters:\n{parameters}"
    )
}

const HEAD: &str = "        apiVersion: resource.nvidia.com/v1beta1\n        kind: GpuConfig\n";

#[test]
fn a_map_where_a_list_should_be_becomes_one() {
    let wrong = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec:\n  devices:\n    requests:\n      \
                 # the request\n      name: gpu # one\n      exactly:\n        deviceClassName: gpu.nvidia.com\n        selectors: {cel: \
                 {expression: 'true'}}\n";
    let right = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec:\n  devices:\n    requests:\n      \
                 # the request\n      - name: gpu # one\n        exactly:\n          deviceClassName: gpu.nvidia.com\n          selectors: \
                 [{cel: {expression: 'true'}}]\n";
    becomes("DeviceConfigList", wrong, right);
}

#[test]
fn an_old_version_of_a_claim_becomes_the_one_of_today() {
    let class = |version: &str| {
        format!(
            "apiVersion: resource.k8s.io/{version}\nkind: DeviceClass\nmetadata: {{name: a.example.com}}\nspec: {{}}\n"
        )
    };
    becomes("WrongVersion", &class("v1alpha3"), &class("v1"));
    assert_eq!(found(&class("v1beta2")), []);
}

#[test]
fn replicas_wherever_they_stand_are_no_parameters() {
    for (before, after) in [
        ("        replicas: 4\n", ""),
        ("        sharing:\n          replicas: 4\n", ""),
        (
            "        replicas: 4 # four\n        sharing:\n          strategy: MPS\n",
            "        # four\n        sharing:\n          strategy: MPS\n",
        ),
        (
            "        sharing:\n          strategy: TimeSlicing\n          timeSlicingConfig:\n            replicas: 4\n",
            "        sharing:\n          strategy: TimeSlicing\n",
        ),
    ] {
        becomes("DeviceParameters", &class(before), &class(&format!("{HEAD}{after}")));
    }
}

#[test]
fn parameters_that_the_driver_does_not_know_are_named() {
    let sharing = |fields: &str| class(&format!("{HEAD}        sharing: {{{fields}}}\n"));
    for (before, after) in [
        ("strategy: timeslicing", "strategy: TimeSlicing"),
        ("Strategy: mps", "strategy: MPS"),
        (
            "strategy: TimeSlicing, timeslicingConfig: {interval: short}",
            "strategy: TimeSlicing, timeSlicingConfig: {interval: Short}",
        ),
    ] {
        becomes("DeviceParameters", &sharing(before), &sharing(after));
    }
    let finding = stays("DeviceParameters", &sharing("strategy: Fair"));
    assert_eq!(finding.next, "write one of TimeSlicing, MPS");
    assert_eq!(finding.field, "spec.config[0].opaque.parameters.sharing.strategy");
    stays("DeviceParameters", &sharing("strategy: MPS, slices: 4"));
    let right = sharing("strategy: TimeSlicing, timeSlicingConfig: {interval: Long}");
    assert_eq!(found(&right), []);
    for (wrong, known) in
        [("resource.nvidia.com/v1beta1", "gpu.nvidia.com/v1alpha1"), ("GpuConfig", "gpuConfig")]
    {
        becomes("DeviceParameters", &right.replace(wrong, known), &right);
    }
    assert_eq!(found(&right.replace("GpuConfig", "VfioDeviceConfig")), [], "has other fields");
    assert_eq!(found(&right.replace("gpu.nvidia.com", "gpu.example.com").replace("Long", "4")), []);
}
