//! A tenant: somebody with the role `edit` in a namespace, and nothing else.

use serde_json::{Value, json};

/// The tenant's account.
pub const TENANT: &str = "tenant";

/// The account in a namespace that is there, its role `edit`, and that it may add containers for
/// debugging, as `kubectl debug` does.
pub fn objects(namespace: &str) -> Vec<Value> {
    let place = |name: &str| json!({"namespace": namespace, "name": name});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": place(TENANT)});
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": place("debug"),
        "rules": [{"apiGroups": [""], "resources": ["pods/ephemeralcontainers"], "verbs": ["patch"]}],
    });
    let binding = |(kind, role): (&str, &str)| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": place(&format!("tenant-{role}")),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": TENANT}],
        })
    };
    let bindings = [("Role", "debug"), ("ClusterRole", "edit")].map(binding);
    [account, role].into_iter().chain(bindings).collect()
}
