//! Certificates that the MeshTrusts of a mesh trust.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_crypto::{CertificateDer, certificate_pem, certificates};
use kodiak_model::kinds::mesh_trust::MeshTrust;
use kodiak_rollout::TrustDomains;
use kodiak_world::World;

/// By trust domain.
#[derive(Default)]
pub(super) struct TrustedCertificates(BTreeMap<Arc<str>, Vec<CertificateDer<'static>>>);

impl TrustedCertificates {
    /// Bundles that are no certificates are left out: Envoy would reject the CAs of all domains because of one.
    pub(super) fn of(world: &World, mesh: &str) -> Self {
        let mut all = Self::default();
        for resource in world.list_in("MeshTrust", mesh) {
            let Some(spec) = resource.spec::<MeshTrust>() else { continue };
            let of_domain = all.0.entry(spec.trust_domain.as_str().into()).or_default();
            for pem in spec.ca_bundles.iter().filter_map(|bundle| bundle.pem.as_ref()) {
                match certificates(pem.value.as_bytes()) {
                    Ok(found) => of_domain.extend(found),
                    Err(error) => {
                        tracing::warn!(%error, mesh, name = &*resource.key.name, "MeshTrust has a bundle without a certificate, ignoring the bundle");
                    }
                }
            }
        }
        all.0.retain(|_, certificates| !certificates.is_empty());
        all
    }

    pub(super) fn of_domain(&self, domain: &str) -> Vec<CertificateDer<'static>> {
        self.0.get(domain).cloned().unwrap_or_default()
    }

    pub(super) fn domains(&self) -> TrustDomains {
        let pems = |certificates: &Vec<CertificateDer<'static>>| {
            let mut pems: Vec<Arc<str>> = certificates.iter().map(|der| certificate_pem(der).into()).collect();
            pems.sort();
            pems.dedup();
            pems
        };
        self.0.iter().map(|(domain, certificates)| (domain.clone(), pems(certificates))).collect()
    }
}
