//! Reads what Envoy would do with a snapshot: the callers that it admits, and the certificate that it presents.

use kodiak_envoy::{
    envoy::{
        config::{
            listener::v3::{FilterChain, Listener, filter},
            rbac::v3::{Principal, principal::Identifier, rbac::Action},
        },
        extensions::filters::network::rbac::v3::Rbac,
        r#type::matcher::v3::string_matcher::MatchPattern,
    },
    unpack,
};
use kodiak_xds_stream::{Snapshot, TypeUrl};

use crate::patched;

/// Whether an inbound admits a caller with these URIs.
pub(super) fn admits(snapshot: &Snapshot, uris: &[String]) -> bool {
    let inbounds = snapshot.of(TypeUrl::Listener).iter().filter(|(name, _)| name.starts_with("inbound:10."));
    let mut inbounds = inbounds.map(|(_, encoded)| patched::listener(encoded).unwrap());
    inbounds.any(|listener| chains(&listener).any(|chain| chain_admits(chain, uris)))
}

fn chains(listener: &Listener) -> impl Iterator<Item = &FilterChain> {
    listener.filter_chains.iter().chain(&listener.default_filter_chain)
}

fn chain_admits(chain: &FilterChain, uris: &[String]) -> bool {
    let configs = chain.filters.iter().filter_map(|filter| match filter.config_type.as_ref()? {
        filter::ConfigType::TypedConfig(any) => unpack::<Rbac>(any).ok(),
        filter::ConfigType::ConfigDiscovery(_) => None,
    });
    configs.filter_map(|config| config.rules).all(|rules| {
        let mut principals = rules.policies.values().flat_map(|policy| &policy.principals);
        principals.any(|principal| matches(principal, uris)) == (rules.action == i32::from(Action::Allow))
    })
}

fn matches(principal: &Principal, uris: &[String]) -> bool {
    match principal.identifier.as_ref().unwrap() {
        Identifier::AndIds(all) => all.ids.iter().all(|id| matches(id, uris)),
        Identifier::OrIds(any) => any.ids.iter().any(|id| matches(id, uris)),
        Identifier::NotId(id) => !matches(id, uris),
        Identifier::Any(any) => *any,
        Identifier::Authenticated(caller) => {
            let name = caller.principal_name.as_ref().unwrap();
            let Some(MatchPattern::Exact(uri)) = &name.match_pattern else { panic!("{name:?}") };
            uris.contains(uri)
        }
        other => panic!("{other:?}"),
    }
}

/// URIs of its certificate, which the fake issuer writes into it.
pub(super) fn presented(snapshot: &Snapshot) -> Vec<String> {
    let secrets = snapshot.of(TypeUrl::Secret).iter().filter(|(name, _)| name.starts_with("identity_cert"));
    let texts = secrets.map(|(_, encoded)| String::from_utf8_lossy(&encoded.delta).into_owned());
    let is_uri = |part: &&str| part.starts_with("spiffe://") || part.starts_with("kuma://");
    texts.flat_map(|text| text.split('"').filter(is_uri).map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Whether it has a cluster for a service.
pub(super) fn has(snapshot: &Snapshot, service: &str) -> bool {
    snapshot.of(TypeUrl::Cluster).contains_key(service)
}
