//! The recipe's DeviceClass and ResourceClaimTemplate.

use super::{becomes, found, mended, names};

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
