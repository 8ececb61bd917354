//! SPIFFE ID that a MeshIdentity gives to a proxy.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{
    Condition, LabelSelector, Labels, ResourceKey,
    go_template::{Template, label_of},
    kinds::mesh_identity::{
        DEFAULT_PATH_ON_KUBERNETES, DEFAULT_PATH_ON_UNIVERSAL, DEFAULT_TRUST_DOMAIN, FUNCTIONS, MeshIdentity,
        MeshIdentityStatus,
    },
    labels, spiffe,
};
use kodiak_rules::{Meta, Proxy};
use kodiak_world::Resource;

/// Of a control plane without a configured zone.
const DEFAULT_ZONE: &str = "default";
const SERVICE_ACCOUNT: &str = "k8s.kuma.io/service-account";

/// A MeshIdentity.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    pub mesh: Arc<str>,
    pub name: Arc<str>,
    pub labels: Arc<Labels>,
    pub spec: Arc<MeshIdentity>,
    /// Its provider can issue.
    pub ready: bool,
}

impl Identity {
    /// `None` without a readable version.
    pub fn of(resource: &Resource) -> Option<Self> {
        let spec = resource.spec::<MeshIdentity>()?;
        let status = resource.status::<MeshIdentityStatus>();
        let is_ready = |condition: &Condition| condition.condition_type == "Ready" && condition.status == "True";
        let ResourceKey { mesh, name, .. } = resource.key.clone();
        let ready = status.conditions.iter().any(is_ready);
        Some(Self { mesh, name, labels: resource.labels.clone(), spec, ready })
    }
}

/// `None` when none is issued, or when its templates give none. `zone` is that of the control plane.
pub fn of_proxy(identities: &[Identity], proxy: &Proxy, zone: &str) -> Option<String> {
    let identity = issuing(identities, proxy)?;
    if identity.ready { render(identity, proxy, zone) } else { None }
}

/// SPIFFE IDs that a proxy has, or will have when a MeshIdentity gets its provider, becomes ready, or another one is deleted.
pub fn possible<'a>(identities: impl IntoIterator<Item = &'a Identity>, proxy: &Proxy) -> BTreeSet<String> {
    let zone = proxy.meta().zone().unwrap_or(DEFAULT_ZONE);
    let selecting = identities.into_iter().filter(|identity| {
        let selector = identity.spec.selector.as_ref().and_then(|selector| selector.dataplane.as_ref());
        selector.is_some_and(|selector| selector.matches(&proxy.labels))
    });
    selecting.filter_map(|identity| render(identity, proxy, zone)).collect()
}

/// The one that a proxy gets its identity from, once that is ready.
pub fn issuing<'a>(identities: &'a [Identity], proxy: &Proxy) -> Option<&'a Identity> {
    // Without a provider nothing is issued: such an identity only tells clients what to expect.
    let issuing = identities.iter().filter(|identity| identity.spec.provider.is_some());
    let matching = issuing.filter_map(|identity| {
        let selector = identity.spec.selector.as_ref()?.dataplane.as_ref()?;
        selector.matches(&proxy.labels).then_some((identity, selector))
    });
    let rank =
        |(identity, selector): &(&Identity, &LabelSelector)| (selector.specificity(), Reverse(identity.name.clone()));
    matching.max_by_key(rank).map(|(identity, _)| identity)
}

fn render(identity: &Identity, proxy: &Proxy, zone: &str) -> Option<String> {
    let Identity { mesh, name, labels, spec, .. } = identity;
    let written = spec.spiffe_id.as_ref();
    let zone = Meta { mesh, name, labels }.zone().unwrap_or(zone);
    let fields = BTreeMap::from([("Mesh", mesh.to_string()), ("Zone", zone.to_owned())]);
    let template = written.and_then(|id| id.trust_domain.as_deref()).unwrap_or(DEFAULT_TRUST_DOMAIN);
    let trust_domain = fill(template, &fields, labels)?;

    let label = |key: &str| proxy.labels.get(key).cloned().unwrap_or_default();
    let on_kubernetes = label(labels::ENV) == "kubernetes";
    let default = if on_kubernetes { DEFAULT_PATH_ON_KUBERNETES } else { DEFAULT_PATH_ON_UNIVERSAL };
    let fields = BTreeMap::from([
        ("TrustDomain", trust_domain.clone()),
        ("Namespace", label(labels::NAMESPACE)),
        ("ServiceAccount", label(SERVICE_ACCOUNT)),
        ("Workload", label(labels::WORKLOAD)),
    ]);
    let path = fill(written.and_then(|id| id.path.as_deref()).unwrap_or(default), &fields, &proxy.labels)?;
    let id = format!("spiffe://{trust_domain}{path}");
    spiffe::parse(&id).is_ok().then_some(id)
}

fn fill(template: &str, fields: &BTreeMap<&str, String>, labels: &Labels) -> Option<String> {
    Template::parse(template, &FUNCTIONS).ok()?.render(fields, &label_of(labels)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn identity(name: &str, ready: bool, spec: &Value) -> Identity {
        Identity {
            mesh: "default".into(),
            name: name.into(),
            labels: Arc::default(),
            spec: Arc::new(serde_json::from_value(spec.clone()).unwrap()),
            ready,
        }
    }

    fn issued(identities: &[Identity], labels: &Value) -> Option<String> {
        let proxy = Proxy {
            mesh: "default".into(),
            name: "web-1".into(),
            labels: Arc::new(serde_json::from_value(labels.clone()).unwrap()),
            dataplane: Arc::default(),
            admission: None,
        };
        of_proxy(identities, &proxy, "east")
    }

    fn spec(labels: &Value, path: &str) -> Value {
        json!({
            "selector": { "dataplane": { "matchLabels": labels } },
            "spiffeID": { "trustDomain": "mesh", "path": path },
            "provider": { "type": "Bundled" },
        })
    }

    #[test]
    fn defaults_follow_where_the_proxy_runs() {
        let all = json!({ "selector": { "dataplane": {} }, "provider": { "type": "Bundled" } });
        let all = [identity("all", true, &all)];
        for (labels, expected) in [
            (json!({ "kuma.io/workload": "web" }), Some("spiffe://default.east.mesh.local/workload/web")),
            (
                json!({
                    "kuma.io/env": "kubernetes",
                    "k8s.kuma.io/namespace": "shop",
                    "k8s.kuma.io/service-account": "web",
                }),
                Some("spiffe://default.east.mesh.local/ns/shop/sa/web"),
            ),
            (json!({}), None),
        ] {
            assert_eq!(issued(&all, &labels).as_deref(), expected, "{labels}");
        }
    }

    #[test]
    fn more_labels_win_and_then_the_first_name() {
        let wide = identity("a", true, &spec(&json!({ "app": "web" }), "/wide"));
        let narrow = identity("c", true, &spec(&json!({ "app": "web", "tier": "front" }), "/narrow"));
        let same = identity("b", true, &spec(&json!({ "tier": "front", "app": "web" }), "/same"));
        let labels = json!({ "app": "web", "tier": "front" });
        let issued = |identities: &[&Identity]| {
            issued(&identities.iter().map(|identity| (*identity).clone()).collect::<Vec<_>>(), &labels)
        };
        assert_eq!(issued(&[&wide, &narrow]).as_deref(), Some("spiffe://mesh/narrow"));
        assert_eq!(issued(&[&narrow, &same, &wide]).as_deref(), Some("spiffe://mesh/same"));
    }

    #[test]
    fn possible_ids_are_those_of_all_identities_that_select_the_proxy() {
        let labels = json!({ "app": "web" });
        let mut without = spec(&labels, "/expected");
        without["provider"] = Value::Null;
        let all = [
            identity("a", true, &without),
            identity("b", false, &spec(&labels, "/waiting")),
            identity("c", true, &spec(&json!({ "app": "other" }), "/other")),
        ];
        let proxy = Proxy {
            mesh: "default".into(),
            name: "web-1".into(),
            labels: Arc::new(serde_json::from_value(labels).unwrap()),
            dataplane: Arc::default(),
            admission: None,
        };
        assert_eq!(
            possible(&all, &proxy).into_iter().collect::<Vec<_>>(),
            ["spiffe://mesh/expected", "spiffe://mesh/waiting"]
        );
    }

    #[test]
    fn identity_that_is_not_ready_keeps_its_precedence() {
        let labels = json!({ "app": "web" });
        let mut without = spec(&labels, "/expected");
        without["provider"] = Value::Null;
        let without = identity("a", true, &without);
        let waiting = identity("b", false, &spec(&labels, "/waiting"));
        let wide = identity("c", true, &spec(&json!({}), "/wide"));
        assert_eq!(issued(&[without, wide.clone()], &labels).as_deref(), Some("spiffe://mesh/wide"));
        assert_eq!(issued(&[waiting, wide], &labels), None);
    }
}
