//! Validation of a MeshTrust.

use super::{CaBundle, CaBundleType, MeshTrust, pem};
use crate::{Choice, FieldPath, Problems};

const TRUST_DOMAIN_MAX: usize = 253;

pub(super) fn check(spec: &MeshTrust, problems: &mut Problems) {
    let at = FieldPath::SPEC;
    let MeshTrust { origin: _, trust_domain, ca_bundles } = spec;
    check_trust_domain(trust_domain, &at.field("trustDomain"), problems);
    let at = at.field("caBundles");
    problems.require(!ca_bundles.is_empty(), &at, "must not be empty");
    for (n, bundle) in ca_bundles.iter().enumerate() {
        check_bundle(bundle, &at.index(n), problems);
    }
}

fn check_trust_domain(trust_domain: &str, at: &FieldPath<'_>, problems: &mut Problems) {
    problems.require(!trust_domain.is_empty(), at, "trustDomain needs to be defined");
    if trust_domain.len() > TRUST_DOMAIN_MAX {
        problems.add(at, format!("must not be longer than {TRUST_DOMAIN_MAX} characters"));
    }
}

fn check_bundle(bundle: &CaBundle, at: &FieldPath<'_>, problems: &mut Problems) {
    let CaBundle { bundle_type, pem } = bundle;
    match bundle_type.as_ref().and_then(Choice::known) {
        Some(CaBundleType::Pem) => {
            let at = at.field("pem");
            match pem {
                None => problems.add(&at, "must be defined"),
                Some(pem) if !is_certificate(&pem.value) => {
                    problems.add(&at.field("value"), "provided certificate has incorrect format");
                }
                Some(_) => (),
            }
        }
        None => {
            let written = bundle_type.as_ref().map_or("", Choice::as_str);
            problems.add(&at.field("type"), format!("{written} must be one of: Pem"));
        }
    }
}

/// Every user may read a MeshTrust, so a private key is rejected even after a certificate.
fn is_certificate(text: &str) -> bool {
    let labels = pem::labels(text);
    !labels.is_empty() && !labels.iter().any(|label| label.ends_with("PRIVATE KEY"))
}
