//! Expected result of a call, from matching and merging.

use std::sync::Arc;
use std::time::Duration;

use kodiak_engine::EngineChange;
use kodiak_rules::subset::{self, ROUTE_HASH};
use kodiak_rules::{Policy, PolicyIndex, Resources, Shadow, inbound};
use kodiak_testkit::simulate::Request;
use serde_json::Value;

use super::routes;
use kodiak_oracle::meshes::{Mesh, Sidecar, Speaks, Tags};

const SERVICE: &str = "kuma.io/service";
/// The default request timeout.
const TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) struct Oracle {
    policy_index: PolicyIndex,
    resources: Resources,
}

#[derive(Debug, PartialEq)]
pub(super) enum Expected {
    /// To endpoints with these tags.
    Forwarded {
        tags: Tags,
        http: Option<Http>,
    },
    NoRoute,
    /// The connection is closed.
    Closed,
}

#[derive(Debug, PartialEq)]
pub(super) struct Http {
    pub(super) timeout: Duration,
    /// Number of retries, if enabled.
    pub(super) retries: Option<u32>,
}

impl Oracle {
    pub(crate) fn of(changes: &[EngineChange]) -> Self {
        let (mut policy_index, mut resources) = (PolicyIndex::default(), Resources::default());
        for change in changes {
            match change {
                EngineChange::Policy { key, policy: Some(policy), .. } => {
                    if key.0 == "MeshHTTPRoute" {
                        resources.insert_route(Arc::clone(policy));
                    }
                    policy_index.set_policy(key, Some(Arc::clone(policy)));
                }
                EngineChange::Dataplane { key, dataplane: Some(proxy) } => {
                    policy_index.set_proxy(&key.name, Some(Arc::clone(proxy)));
                }
                _ => (),
            }
        }
        Self { policy_index, resources }
    }

    /// Policies apply to the whole service, also for a subset of it.
    pub(super) fn about(&self, from: &Sidecar, called: &Tags, mesh: &Mesh, request: &Request) -> Expected {
        let (service, own) = (called[SERVICE].as_str(), || called.clone());
        let speaks = mesh.speaks(service);
        let to = &[(SERVICE, service)];
        let http_route = self.conf("MeshHTTPRoute", from, to);
        let tcp_route = self.conf("MeshTCPRoute", from, to);
        // A service without a proxy has no protocol: its routes decide.
        let is_tcp = match speaks {
            Some(speaks) if speaks.http() => http_route.is_none() && tcp_route.is_some(),
            Some(_) => true,
            None => http_route.is_none() || tcp_route.is_some(),
        };
        if is_tcp {
            let refs = tcp_route.as_ref().map_or(&Value::Null, |conf| &conf["default"]["backendRefs"]);
            // Neither the protocol of a backend nor its endpoints matter.
            return match routes::split(refs, |_| true, request.dice) {
                routes::Split::Own => Expected::Forwarded { tags: own(), http: None },
                routes::Split::To(tags) => Expected::Forwarded { tags, http: None },
                routes::Split::Nobody => Expected::Closed,
            };
        }
        let rules = http_route.as_ref().map_or(&Value::Null, |conf| &conf["rules"]);
        let Some(taken) = routes::take(rules, |service| mesh.speaks(service).is_some_and(Speaks::http), request) else {
            return Expected::NoRoute;
        };
        let http = self.http(from, service, &taken.name, speaks);
        Expected::Forwarded { tags: taken.to.unwrap_or_else(own), http: Some(http) }
    }

    /// Whether the server allows the caller, with mTLS.
    pub(super) fn may_call(&self, from: &Sidecar, to: &Sidecar) -> bool {
        self.may_call_inbound(from, to, 0)
    }

    pub(crate) fn may_call_inbound(&self, from: &Sidecar, to: &Sidecar, inbound: usize) -> bool {
        let matched = self.policy_index.matched("MeshTrafficPermission", &to.name, Shadow::Ignored);
        let policies = matched.inbounds.get(&inbound).map_or(&[][..], Vec::as_slice);
        if policies.iter().any(|policy| !policy.body.rules.is_empty()) {
            let uris = from.uris();
            let listed = |list: &str| policies.iter().any(|policy| is_listed(policy, list, &uris));
            return !listed("deny") && (listed("allow") || listed("allowWithShadowDeny"));
        }
        let tags: Vec<(&str, &str)> = from.tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let rule = subset::for_caller(policies, &tags).unwrap();
        rule.is_some_and(|rule| rule.conf.json()["action"] != "Deny")
    }

    /// Timeout of an inbound request.
    pub(super) fn received(&self, callee: &Sidecar) -> Duration {
        let matched = self.policy_index.matched("MeshTimeout", &callee.name, Shadow::Ignored);
        let policies = matched.inbounds.get(&0).map_or(&[][..], Vec::as_slice);
        let conf = inbound::for_everybody(&inbound::rules(policies));
        timeout(conf.as_ref().map(kodiak_model::policy::Conf::json))
    }

    fn http(&self, caller: &Sidecar, service: &str, route: &str, speaks: Option<Speaks>) -> Http {
        let of_route = &[(SERVICE, service), (ROUTE_HASH, route)];
        let retry = self.conf("MeshRetry", caller, of_route);
        let retry = match speaks {
            Some(Speaks::Http) => retry.map(|conf| conf["http"].clone()),
            Some(Speaks::Grpc) => retry.map(|conf| conf["grpc"].clone()),
            Some(Speaks::Http2 | Speaks::Tcp) | None => None,
        };
        let count = retry.and_then(|conf| conf["numRetries"].as_u64());
        Http {
            // Without a policy there is no timeout.
            timeout: self.conf("MeshTimeout", caller, of_route).map_or(Duration::ZERO, |conf| timeout(Some(&conf))),
            retries: count.filter(|count| *count > 0).map(|count| u32::try_from(count).unwrap()),
        }
    }

    /// Merged conf of one policy kind for a proxy and a destination.
    fn conf(&self, kind: &str, caller: &Sidecar, to: &[(&str, &str)]) -> Option<Value> {
        let policies = &self.policy_index.matched(kind, &caller.name, Shadow::Ignored).proxy;
        let rule = subset::for_destination(policies, &self.resources, to).unwrap().into_iter().next();
        rule.map(|rule| rule.conf.json().clone())
    }
}

fn is_listed(policy: &Policy, list: &str, uris: &[String]) -> bool {
    let confs = policy.body.rules.iter().map(|rule| rule.conf.json());
    let items = confs.flat_map(|conf| conf[list].as_array().into_iter().flatten());
    items.filter(|item| item["sni"].is_null()).map(|item| &item["spiffeID"]).any(|id| {
        match (id["type"].as_str(), id["value"].as_str()) {
            (Some("Exact"), Some(value)) => uris.iter().any(|uri| uri == value),
            (Some("Prefix"), Some(value)) => {
                let below = format!("{value}/");
                uris.iter().any(|uri| uri == value || uri.starts_with(&below))
            }
            _ => true,
        }
    })
}

fn timeout(conf: Option<&Value>) -> Duration {
    let written = conf.and_then(|conf| conf["http"]["requestTimeout"].as_str()?.strip_suffix('s')?.parse().ok());
    written.map_or(TIMEOUT, Duration::from_secs)
}
