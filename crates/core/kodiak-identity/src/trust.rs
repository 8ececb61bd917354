//! Trust in the certificates of proxies at a step of the rollout.

use kodiak_rollout::Rollout;
use kodiak_rules::Proxy;

use crate::{Issuer, issuer_of};

/// Whether the proxies of the mesh trust the issuer of the certificate of a proxy: its backend, or a CA of the trust domain of
/// its MeshIdentity. A proxy without a certificate has none to trust.
pub fn is_trusted(rollout: &Rollout, proxy: &Proxy) -> bool {
    match issuer_of(&rollout.issuers, proxy) {
        None => false,
        Some(Issuer::Backend(backend)) => rollout.trust.contains(backend),
        Some(Issuer::Identity { identity, .. }) => rollout.trust_domains.contains_key(&identity.trust_domain),
    }
}
