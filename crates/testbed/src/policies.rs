//! When the policies of the API server act.

use crate::api::{Api, ApiError, JSON};
use http::Method;
use serde_json::json;
use std::time::Duration;

const GROUP: &str = "admissionregistration.k8s.io/v1";

impl Api {
    /// Waits until the server acts by all ValidatingAdmissionPolicies that are there. It hears of
    /// them and of their bindings in the order in which they were made, so that one more is made,
    /// tried, and taken away.
    pub async fn policies_act(&self) -> Result<(), ApiError> {
        let (policies, bindings) = (
            format!("/apis/{GROUP}/validatingadmissionpolicies"),
            format!("/apis/{GROUP}/validatingadmissionpolicybindings"),
        );
        let policy = json!({
            "apiVersion": GROUP, "kind": "ValidatingAdmissionPolicy",
            "metadata": {"generateName": "last-"},
            "spec": {
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                    "resources": ["configmaps"],
                }]},
                // Nobody but us makes one of this name.
                "validations": [{"expression": "object.metadata.name != 'tried-by-the-testbed'"}],
            },
        });
        let name = self.send(Method::POST, &policies, JSON, Some(&policy)).await?;
        let name = name["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let binding = json!({
            "apiVersion": GROUP, "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        });
        self.send(Method::POST, &bindings, JSON, Some(&binding)).await?;
        let tried = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "default", "name": "tried-by-the-testbed"},
        });
        let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
        let is_it = |why: &ApiError| why.to_string().contains(&name);
        while !self.send(Method::POST, path, JSON, Some(&tried)).await.is_err_and(|why| is_it(&why))
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.delete(&format!("{bindings}/{name}")).await?;
        self.delete(&format!("{policies}/{name}")).await.map(|_| ())
    }
}
