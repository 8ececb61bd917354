//! TLS of inbounds and outbounds: the policies that configure it, and the connections that an inbound accepts.

use std::sync::Arc;

use kodiak_model::{InboundTls, Kind, kinds::mesh::MtlsMode};
use kodiak_policies::{
    Entry,
    target::{Tls, TlsParameters},
};
use kodiak_rollout::{CertificateSource, Rollout};
use kodiak_rules::{Matched, Policy, PolicyIndex, Proxy, Shadow};

use crate::{Issuer, issuer_of};

/// Connections that an inbound of a server accepts. `mode` is that of the policies that select the inbound.
pub fn accepts(rollout: &Rollout, server: &Proxy, mode: Option<MtlsMode>) -> InboundTls {
    // Then both sources give the same result, and finding a MeshIdentity renders a template.
    let is_decided = mode.is_some() || rollout.accept == InboundTls::Strict;
    let certificate = if is_decided && rollout.issuers.signer.is_some() {
        CertificateSource::Backend
    } else {
        match issuer_of(&rollout.issuers, server) {
            None => CertificateSource::None,
            Some(Issuer::Backend(_)) => CertificateSource::Backend,
            Some(Issuer::Identity { .. }) => CertificateSource::MeshIdentity,
        }
    };
    rollout.accepts(certificate, mode)
}

/// Policies of a mesh that configure TLS between proxies.
#[derive(Clone, Copy)]
pub struct TlsPolicies<'a> {
    pub index: &'a PolicyIndex,
    pub shadow: Shadow,
}

impl TlsPolicies<'_> {
    pub fn kinds() -> impl Iterator<Item = &'static Kind> {
        hooks().map(kodiak_policies::Policy::kind)
    }

    /// For an inbound, by the name of its Dataplane and its position.
    pub fn inbound(&self, proxy: &str, position: usize) -> Tls {
        self.merged(proxy, |matched| matched.inbounds.get(&position).map_or(&[], Vec::as_slice))
    }

    /// For the outbounds of a proxy. A proxy without inbounds has outbounds too, so each policy that selects it counts.
    pub fn outbounds(&self, proxy: &str) -> TlsParameters {
        self.merged(proxy, |matched| &matched.proxy).parameters
    }

    fn merged(&self, proxy: &str, of: impl Fn(&Matched) -> &[Arc<Policy>]) -> Tls {
        let mut tls = Tls::default();
        for hook in hooks() {
            let matched = self.index.matched(hook.kind().name, proxy, self.shadow);
            let entries: Vec<Entry> = of(&matched).iter().flat_map(|policy| entries(policy)).collect();
            if !entries.is_empty() {
                hook.tls(&entries, &mut tls);
            }
        }
        tls
    }
}

/// Whether a policy makes inbounds that it selects permissive, unless another one overrides it.
pub fn is_permissive(policy: &Policy) -> bool {
    let hook = hooks().find(|hook| hook.kind().name == policy.kind.name);
    hook.is_some_and(|hook| {
        let mut tls = Tls::default();
        hook.tls(&entries(policy), &mut tls);
        tls.mode == Some(MtlsMode::Permissive)
    })
}

fn hooks() -> impl Iterator<Item = &'static dyn kodiak_policies::Policy> {
    kodiak_policies::in_force().iter().copied().filter(|hook| hook.configures_tls())
}

fn entries(policy: &Policy) -> Vec<Entry> {
    Entry::of(&policy.kri().to_string().into(), &policy.body)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kodiak_model::policy::Body;
    use kodiak_model::tls::TlsVersion;
    use kodiak_policies::mesh_tls::KIND;
    use kodiak_rollout::{AppliedIdentity, AppliedProvider, Issuers};
    use serde_json::{Value, json};

    use super::*;

    fn proxy(inbounds: &Value) -> Arc<Proxy> {
        let dataplane = json!({ "networking": { "address": "10.0.0.1", "inbound": inbounds } });
        let labels = BTreeMap::from([("app".to_owned(), "backend".to_owned())]);
        Arc::new(Proxy {
            mesh: "default".into(),
            name: "backend-1".into(),
            labels: Arc::new(labels),
            dataplane: Arc::new(serde_json::from_value(dataplane).unwrap()),
            admission: None,
        })
    }

    fn index(specs: &[Value], proxy: &Arc<Proxy>) -> PolicyIndex {
        let mut index = PolicyIndex::default();
        index.set_proxy(&proxy.name, Some(proxy.clone()));
        for (n, spec) in specs.iter().enumerate() {
            let body = Body::read(&KIND.policy.unwrap(), spec).unwrap();
            let name: Arc<str> = format!("p{n}").into();
            let policy = Policy { kind: &KIND, mesh: "default".into(), name, labels: Arc::default(), body };
            index.set_policy(&(KIND.name, policy.name.clone()), Some(Arc::new(policy)));
        }
        index
    }

    #[test]
    fn each_inbound_has_its_own_mode_and_outbounds_have_the_versions() {
        let ports = json!([{ "port": 80, "name": "http" }, { "port": 90, "name": "metrics" }]);
        let proxy = proxy(&ports);
        let target = json!({ "kind": "Dataplane", "labels": { "app": "backend" }, "sectionName": "metrics" });
        let specs = [
            json!({ "rules": [{ "default": { "mode": "Strict", "tlsVersion": { "min": "TLS13" } } }] }),
            json!({ "targetRef": target, "rules": [{ "default": { "mode": "Permissive" } }] }),
        ];
        let index = index(&specs, &proxy);
        let policies = TlsPolicies { index: &index, shadow: Shadow::Ignored };
        let modes = [0, 1].map(|position| policies.inbound(&proxy.name, position).mode);
        assert_eq!(modes, [Some(MtlsMode::Strict), Some(MtlsMode::Permissive)]);
        assert_eq!(policies.inbound(&proxy.name, 1).parameters, policies.outbounds(&proxy.name));
        assert_eq!(policies.outbounds(&proxy.name).min, Some(TlsVersion::Tls13));
    }

    #[test]
    fn proxy_without_inbounds_calls_with_the_versions_of_the_mesh() {
        let proxy = proxy(&json!([]));
        let index = index(&[json!({ "rules": [{ "default": { "tlsVersion": { "max": "TLS13" } } }] })], &proxy);
        let policies = TlsPolicies { index: &index, shadow: Shadow::Ignored };
        assert_eq!(policies.outbounds(&proxy.name).max, Some(TlsVersion::Tls13));
    }

    #[test]
    fn only_a_permissive_mode_loosens() {
        let proxy = proxy(&json!([]));
        for (conf, expected) in
            [(json!({}), false), (json!({ "mode": "Strict" }), false), (json!({ "mode": "Permissive" }), true)]
        {
            let index = index(&[json!({ "rules": [{ "default": conf }] })], &proxy);
            assert!(index.policies().all(|policy| is_permissive(policy) == expected), "{conf}");
        }
    }

    #[test]
    fn server_with_a_mesh_identity_is_strict_by_default() {
        let backend = Issuers { signer: Some("ca".into()), ..Issuers::default() };
        let identity = AppliedIdentity {
            path: Some("/backend".into()),
            trust_domain: "default.local".into(),
            provider: Some(AppliedProvider::Bundled { ca: "ca".into(), seconds: 60 }),
            ..AppliedIdentity::default()
        };
        let both = Issuers { identities: vec![Arc::new(identity)], ..backend.clone() };
        let server = proxy(&json!([{ "port": 80 }]));
        for (issuers, expected) in
            [(Issuers::default(), InboundTls::Plaintext), (backend, InboundTls::Permissive), (both, InboundTls::Strict)]
        {
            let accept = InboundTls::Permissive;
            let rollout = Rollout { accept, strict_allowed: true, issuers, ..Rollout::default() };
            assert_eq!(accepts(&rollout, &server, None), expected);
        }
    }
}
