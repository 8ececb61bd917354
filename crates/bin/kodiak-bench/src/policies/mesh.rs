//! A typical mesh: many services with several instances, teams with policies of their own, and a few policies for the
//! whole mesh.

use std::sync::Arc;

use kodiak_kinds::{Kind, kinds};
use kodiak_model::{Labels, ProxyKey, policy::Body};
use kodiak_rules::{Policy, Proxy, policy_index::PolicyKey};
use serde_json::{Value, json};

pub(super) const MESH: &str = "default";
/// Kinds of the policies, in turn.
pub(super) const KINDS: [&str; 6] = [
    "MeshTimeout",
    "MeshRetry",
    "MeshCircuitBreaker",
    "MeshLoadBalancingStrategy",
    "MeshTrafficPermission",
    "MeshHTTPRoute",
];
/// Policies for all proxies.
pub(super) const FOR_ALL: usize = 20;
/// Services of one team.
const OF_TEAM: usize = 10;
/// Services that a proxy calls.
const CALLS: usize = 10;

#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) policies: usize,
    pub(super) proxies: usize,
    pub(super) services: usize,
}

/// Target of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BenchTarget {
    Mesh,
    Service,
    /// Some proxies of a team, by tags.
    Subset,
    /// Proxies of a service, by labels.
    Labels,
}

impl Size {
    pub(super) fn divided_by(self, by: usize) -> Self {
        let Self { policies, proxies, services } = self;
        // Policies for all proxies are not scaled down.
        let policies = FOR_ALL + policies.saturating_sub(FOR_ALL) / by;
        Self { policies, proxies: (proxies / by).max(1), services: (services / by).max(1) }
    }

    pub(super) fn key(n: usize) -> ProxyKey {
        ProxyKey::new(MESH, &format!("dp-{n}"))
    }

    pub(super) fn proxy(self, n: usize) -> anyhow::Result<Arc<Proxy>> {
        let service = n % self.services;
        let (team, version) = (service / OF_TEAM, n / self.services % 2 + 1);
        let outbounds: Vec<Value> = (1..=CALLS.min(self.services))
            .map(|each| json!({ "port": 10_000 + each, "tags": { "kuma.io/service": name(service + each, self) } }))
            .collect();
        let tags = json!({
            "kuma.io/service": name(service, self), "kuma.io/protocol": "http",
            "version": format!("v{version}"), "team": format!("team-{team}"),
        });
        let dataplane = json!({ "networking": {
            "address": format!("10.{}.{}.{}", n / 62_500 % 250, n / 250 % 250, n % 250 + 1),
            "inbound": [{ "port": 8080, "tags": tags }],
            "outbound": outbounds,
        } });
        let labels = Labels::from([("app".to_owned(), name(service, self))]);
        let key = Self::key(n);
        let dataplane = Arc::new(serde_json::from_value(dataplane)?);
        Ok(Arc::new(Proxy { mesh: key.mesh, name: key.name, labels: Arc::new(labels), dataplane, admission: None }))
    }

    pub(super) fn target(n: usize) -> BenchTarget {
        match n {
            0..FOR_ALL => BenchTarget::Mesh,
            _ => [BenchTarget::Service, BenchTarget::Subset, BenchTarget::Labels][n / KINDS.len() % 3],
        }
    }

    /// Another `round` has other values for the same target.
    pub(super) fn policy(self, n: usize, round: usize) -> anyhow::Result<(PolicyKey, Arc<Policy>)> {
        let (kind, spec) = self.spec(n, round);
        let facts = kind.policy.as_ref().expect("these kinds are policies");
        let name: Arc<str> = format!("policy-{n}").into();
        let body = Body::read(facts, &spec)?;
        let policy = Policy { kind, mesh: MESH.into(), name: name.clone(), labels: Arc::default(), body };
        Ok(((kind.name, name), Arc::new(policy)))
    }

    fn spec(self, n: usize, round: usize) -> (&'static Kind, Value) {
        let kind = kinds().by_name(KINDS[n % KINDS.len()]).expect("these kinds are known");
        let turn = n / KINDS.len();
        let team = turn % self.services.div_ceil(OF_TEAM);
        let target = Self::target(n);
        let target_ref = match target {
            BenchTarget::Mesh => json!({ "kind": "Mesh" }),
            BenchTarget::Service => json!({ "kind": "MeshService", "name": name(turn, self) }),
            BenchTarget::Subset => {
                json!({ "kind": "MeshSubset", "tags": { "team": format!("team-{team}"), "version": "v1" } })
            }
            BenchTarget::Labels => json!({ "kind": "Dataplane", "labels": { "app": name(turn, self) } }),
        };
        let mut spec = self.says(kind.name, n, round, target);
        spec["targetRef"] = target_ref;
        (kind, spec)
    }

    fn says(self, kind: &str, n: usize, round: usize, target: BenchTarget) -> Value {
        let (all, one) = (json!({ "kind": "Mesh" }), json!({ "kind": "MeshService", "name": name(n * 7 + 1, self) }));
        let number = n % 30 + 1 + round;
        let seconds = format!("{number}s");
        let to = |items: Value| json!({ "to": items });
        match kind {
            "MeshTimeout" => {
                let idle = json!({ "idleTimeout": seconds });
                let calls = json!([
                    { "targetRef": all, "default": { "http": { "requestTimeout": seconds } } },
                    { "targetRef": one, "default": { "connectionTimeout": seconds } },
                ]);
                match target {
                    // A policy has one of them.
                    BenchTarget::Labels if (n / KINDS.len()).is_multiple_of(2) => {
                        json!({ "rules": [{ "default": idle }] })
                    }
                    BenchTarget::Labels => to(calls),
                    BenchTarget::Mesh | BenchTarget::Service | BenchTarget::Subset => {
                        json!({ "from": [{ "targetRef": all, "default": idle }], "to": calls })
                    }
                }
            }
            "MeshRetry" => to(json!([{ "targetRef": one, "default": { "http": { "numRetries": number } } }])),
            "MeshCircuitBreaker" => to(json!([
                { "targetRef": all, "default": { "connectionLimits": { "maxConnections": 1000 + number } } },
                { "targetRef": one, "default": { "connectionLimits": { "maxRequests": number } } },
            ])),
            "MeshLoadBalancingStrategy" => {
                let balancer = ["RoundRobin", "LeastRequest", "Random"][number % 3];
                to(json!([{ "targetRef": one, "default": { "loadBalancer": { "type": balancer } } }]))
            }
            "MeshTrafficPermission" => {
                let action = ["Allow", "AllowWithShadowDeny"][number % 2];
                match target {
                    BenchTarget::Labels => {
                        let value = format!("spiffe://default/svc-{number}");
                        let caller = json!({ "spiffeID": { "type": "Exact", "value": value } });
                        json!({ "rules": [{ "default": { "allow": [caller] } }] })
                    }
                    BenchTarget::Mesh | BenchTarget::Service | BenchTarget::Subset => json!({ "from": [
                        { "targetRef": one, "default": { "action": action } },
                    ] }),
                }
            }
            _ => {
                let path = json!({ "type": "PathPrefix", "value": format!("/part-{number}") });
                let backend = json!({ "kind": "MeshService", "name": one["name"], "weight": number });
                let rule = json!({ "matches": [{ "path": path }], "default": { "backendRefs": [backend] } });
                to(json!([{ "targetRef": one, "rules": [rule] }]))
            }
        }
    }
}

/// Name of a service; wraps around after the last one.
fn name(n: usize, size: Size) -> String {
    format!("svc-{}", n % size.services)
}

#[cfg(test)]
mod tests {
    use kodiak_model::{Draft, Place, check};

    use super::*;

    const SIZE: Size = Size { policies: 100, proxies: 40, services: 20 };

    #[test]
    fn all_policies_are_valid() {
        for (n, round) in (0..SIZE.policies).flat_map(|n| [(n, 0), (n, 1)]) {
            let (kind, spec) = SIZE.spec(n, round);
            let document = json!({ "type": kind.name, "mesh": MESH, "name": "policy", "spec": spec });
            let draft = Draft::from_value(document.clone(), |_| Some(kind.shape)).unwrap();
            let checked = check(kind, draft, &Place::Global);
            assert!(checked.is_ok(), "{document}: {checked:?}");
        }
        SIZE.proxy(39).unwrap();
    }

    #[test]
    fn another_round_changes_only_values() {
        for n in 0..SIZE.policies {
            let [(key, before), (same, after)] = [0, 1].map(|round| SIZE.policy(n, round).unwrap());
            assert_eq!((key, &before.body.target), (same, &after.body.target));
            assert_ne!(before, after);
        }
    }

    #[test]
    fn a_smaller_mesh_has_the_same_number_of_policies_for_all_proxies() {
        let smaller = Size { policies: 10_020, proxies: 10_000, services: 1_000 }.divided_by(10);
        assert_eq!((smaller.policies, smaller.proxies, smaller.services), (1_020, 1_000, 100));
    }
}
