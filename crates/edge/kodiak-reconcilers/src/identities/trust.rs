//! Certificates that the MeshTrusts of a mesh trust.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_crypto::{CertificateDer, certificate_pem, trusted_certificates};
use kodiak_model::kinds::mesh_trust::MeshTrust;
use kodiak_rollout::TrustDomains;
use kodiak_world::World;

#[derive(Default)]
pub(super) struct TrustedCertificates {
    by_domain: BTreeMap<Arc<str>, Vec<CertificateDer<'static>>>,
    /// Faults of bundles that are stored and not trusted.
    pub(super) ignored: Vec<Arc<str>>,
}

impl TrustedCertificates {
    /// Leaves out bundles without a CA certificate: Envoy would reject the CAs of all domains because of one.
    pub(super) fn of(world: &World, mesh: &str) -> Self {
        let mut all = Self::default();
        for resource in world.list_in("MeshTrust", mesh) {
            let Some(spec) = resource.spec::<MeshTrust>() else { continue };
            let of_domain = all.by_domain.entry(spec.trust_domain.as_str().into()).or_default();
            for (n, bundle) in spec.ca_bundles.iter().enumerate() {
                let Some(pem) = &bundle.pem else { continue };
                let (found, problems) = trusted_certificates(pem.value.as_bytes());
                of_domain.extend(found);
                let name = &resource.key.name;
                all.ignored.extend(problems.iter().map(|problem| {
                    let which = problem.index.map(|index| format!(" certificate {index}")).unwrap_or_default();
                    format!("MeshTrust {name:?}: spec.caBundles[{n}]{which} is not trusted: {problem}").into()
                }));
            }
        }
        all.by_domain.retain(|_, certificates| !certificates.is_empty());
        all
    }

    pub(super) fn of_domain(&self, domain: &str) -> Vec<CertificateDer<'static>> {
        self.by_domain.get(domain).cloned().unwrap_or_default()
    }

    pub(super) fn domains(&self) -> TrustDomains {
        let pems = |certificates: &Vec<CertificateDer<'static>>| {
            let mut pems: Vec<Arc<str>> = certificates.iter().map(|der| certificate_pem(der).into()).collect();
            pems.sort();
            pems.dedup();
            pems
        };
        self.by_domain.iter().map(|(domain, certificates)| (domain.clone(), pems(certificates))).collect()
    }
}
