//! Initial policies of a new mesh.

use serde_json::{Value, json};

/// (kind, prefix of the name, spec). The name is `<prefix>-<mesh>`.
pub(super) fn of_new_mesh() -> Vec<(&'static str, &'static str, Value)> {
    let to_mesh = |default: Value| json!([{ "targetRef": { "kind": "Mesh" }, "default": default }]);
    vec![
        (
            "MeshTimeout",
            "mesh-timeout-all",
            json!({
                "targetRef": { "kind": "Mesh", "proxyTypes": ["Sidecar"] },
                "from": to_mesh(json!({
                    "connectionTimeout": "10s",
                    "idleTimeout": "2h",
                    "http": { "requestTimeout": "0s", "streamIdleTimeout": "1h", "maxStreamDuration": "0s" },
                })),
                "to": to_mesh(json!({
                    "connectionTimeout": "5s",
                    "idleTimeout": "1h",
                    "http": { "requestTimeout": "15s", "streamIdleTimeout": "30m" },
                })),
            }),
        ),
        (
            "MeshTimeout",
            "mesh-gateways-timeout-all",
            json!({
                "targetRef": { "kind": "Mesh", "proxyTypes": ["Gateway"] },
                "from": to_mesh(json!({
                    "idleTimeout": "5m",
                    "http": { "streamIdleTimeout": "5s", "requestHeadersTimeout": "500ms" },
                })),
                "to": to_mesh(json!({ "idleTimeout": "1h", "http": { "streamIdleTimeout": "5s" } })),
            }),
        ),
        (
            "MeshCircuitBreaker",
            "mesh-circuit-breaker-all",
            json!({
                "targetRef": { "kind": "Mesh" },
                "to": to_mesh(json!({
                    "connectionLimits": {
                        "maxConnections": 1024, "maxPendingRequests": 1024, "maxRequests": 1024, "maxRetries": 3,
                    },
                })),
            }),
        ),
        (
            "MeshRetry",
            "mesh-retry-all",
            json!({
                "targetRef": { "kind": "Mesh" },
                "to": to_mesh(json!({
                    "tcp": { "maxConnectAttempt": 5 },
                    "http": {
                        "numRetries": 5, "perTryTimeout": "16s", "backOff": { "baseInterval": "25ms", "maxInterval": "250ms" },
                    },
                    "grpc": {
                        "numRetries": 5, "perTryTimeout": "16s", "backOff": { "baseInterval": "25ms", "maxInterval": "250ms" },
                    },
                })),
            }),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use kodiak_model::yaml;

    use super::*;

    /// The case shows their effect on a proxy.
    const CASE: &str = include_str!("../../../../core/kodiak-model/src/kinds/mesh/cases/new-mesh.mesh.yaml");

    #[test]
    fn case_of_a_new_mesh_has_the_initial_policies() {
        let documents = yaml::parse(CASE).unwrap().into_iter().map(|document| document.value);
        let in_case: Vec<Value> = documents.filter(|document| document.get("spec").is_some()).collect();
        let policy = |(kind, prefix, spec): (&str, &str, Value)| json!({ "type": kind, "mesh": "default", "name": format!("{prefix}-default"), "spec": spec });
        assert_eq!(in_case, of_new_mesh().into_iter().map(policy).collect::<Vec<_>>());
    }
}
