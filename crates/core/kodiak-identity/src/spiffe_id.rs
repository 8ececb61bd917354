//! SPIFFE ID that a MeshIdentity gives to a proxy.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use kodiak_model::{
    Condition, Kri, LabelSelector, Labels, ResourceKey,
    go_template::{Template, label_of},
    kinds::mesh_identity::{DEFAULT_TRUST_DOMAIN, FUNCTIONS, KIND, MeshIdentity, MeshIdentityStatus},
    spiffe,
};
use kodiak_rollout::{AppliedIdentity, AppliedProvider, Selector};
use kodiak_rules::{Meta, Proxy};
use kodiak_world::Resource;

use crate::applied::{path_template, render_path};

/// Of a control plane without a configured zone.
const DEFAULT_ZONE: &str = "default";

/// Reason of the condition `Ready` if a step of the initialisation failed.
const FAILURE: &str = "Failure";

/// A MeshIdentity.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    pub mesh: Arc<str>,
    pub name: Arc<str>,
    pub labels: Arc<Labels>,
    pub spec: Arc<MeshIdentity>,
    /// Its provider can issue.
    pub ready: bool,
    /// The control plane could not initialise it.
    pub failed: bool,
}

impl Identity {
    /// `None` without a readable version.
    pub fn of(resource: &Resource) -> Option<Self> {
        let spec = resource.spec::<MeshIdentity>()?;
        let status = resource.status::<MeshIdentityStatus>();
        let is_ready = |condition: &Condition| condition.condition_type == "Ready" && condition.status == "True";
        let ResourceKey { mesh, name, .. } = resource.key.clone();
        let has_failed = |condition: &Condition| condition.condition_type == "Ready" && condition.reason == FAILURE;
        let ready = status.conditions.iter().any(is_ready);
        let failed = status.conditions.iter().any(has_failed);
        Some(Self { mesh, name, labels: resource.labels.clone(), spec, ready, failed })
    }
}

/// `None` when none is issued, or when its templates give none. `zone` is that of the control plane.
pub fn of_proxy(identities: &[Identity], proxy: &Proxy, zone: &str) -> Option<String> {
    let identity = issuing(identities, proxy)?;
    if identity.ready { render(identity, proxy, zone) } else { None }
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
    let trust_domain = trust_domain(identity, zone).ok()?;
    let written = identity.spec.spiffe_id.as_ref().and_then(|id| id.path.as_deref());
    render_path(path_template(written, &proxy.labels), trust_domain, &proxy.labels).ok()
}

/// Trust domain of a MeshIdentity, or why its template gives none. `zone` is that of the control plane.
fn trust_domain(identity: &Identity, zone: &str) -> Result<String, String> {
    let Identity { mesh, name, labels, spec, .. } = identity;
    let zone = Meta { mesh, name, labels }.zone().unwrap_or(zone);
    let fields = BTreeMap::from([("Mesh", mesh.to_string()), ("Zone", zone.to_owned())]);
    let written = spec.spiffe_id.as_ref().and_then(|id| id.trust_domain.as_deref());
    let template = written.unwrap_or(DEFAULT_TRUST_DOMAIN);
    let parsed = Template::parse(template, &FUNCTIONS).map_err(|error| error.to_string())?;
    let rendered = parsed.render(&fields, &label_of(labels)).map_err(|error| error.to_string())?;
    match spiffe::parse(&format!("spiffe://{rendered}")) {
        Ok(id) if id.trust_domain == rendered => Ok(rendered),
        Ok(_) => Err(format!("{rendered:?} is not a trust domain: it has a path")),
        Err(error) => Err(format!("{rendered:?} is not a trust domain: {error}")),
    }
}

impl Identity {
    /// SPIFFE ID for a proxy, if the identity selects it and its labels are bound, whether or not a provider issues it.
    pub fn id_of(&self, proxy: &Proxy) -> Option<String> {
        let applied = self.applied(proxy.meta().zone().unwrap_or_default(), None)?.ok()?;
        let is_selected = applied.selector.0.iter().all(|(key, value)| proxy.labels.get(key) == Some(value));
        if is_selected { crate::applied_id(&applied, proxy).ok() } else { None }
    }

    /// Trust domain, or why its template gives none. `zone` is that of the control plane.
    pub fn trust_domain(&self, zone: &str) -> Result<String, String> {
        trust_domain(self, if zone.is_empty() { DEFAULT_ZONE } else { zone })
    }

    /// As a rollout applies it. `None` if it selects no proxies.
    pub fn applied(&self, zone: &str, provider: Option<AppliedProvider>) -> Option<Result<AppliedIdentity, String>> {
        let selector = self.spec.selector.as_ref().and_then(|selector| selector.dataplane.as_ref())?;
        let kri = Kri::of(&KIND, &self.mesh, &self.name, &self.labels).expect("a MeshIdentity has a short name");
        let path = self.spec.spiffe_id.as_ref().and_then(|id| id.path.as_deref()).map(Arc::from);
        Some(self.trust_domain(zone).map(|trust_domain| AppliedIdentity {
            name: self.name.clone(),
            kri: kri.to_string().into(),
            selector: Selector::of(selector),
            trust_domain: trust_domain.into(),
            path,
            provider,
        }))
    }
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
            failed: false,
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
