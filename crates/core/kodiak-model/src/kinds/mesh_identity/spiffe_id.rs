//! Templates of SPIFFE IDs: their fields, and warnings about templates that cannot produce an ID.

use std::collections::BTreeMap;

use super::SpiffeId;
use crate::{
    go_template::{Template, quote},
    spiffe,
};

pub const DEFAULT_TRUST_DOMAIN: &str = "{{ .Mesh }}.{{ .Zone }}.mesh.local";
pub const DEFAULT_PATH_ON_UNIVERSAL: &str = "/workload/{{ .Workload }}";
pub const DEFAULT_PATH_ON_KUBERNETES: &str = "/ns/{{ .Namespace }}/sa/{{ .ServiceAccount }}";

/// Fields that a trust domain template may use.
pub const TRUST_DOMAIN_FIELDS: [&str; 2] = ["Mesh", "Zone"];
/// Fields that a path template may use.
pub const PATH_FIELDS: [&str; 4] = ["TrustDomain", "Namespace", "ServiceAccount", "Workload"];
/// Functions that both templates may call.
pub const FUNCTIONS: [&str; 1] = ["label"];

const SAMPLE_TRUST_DOMAIN: &str = "trust-domain";

/// Templates that parse but cannot produce a valid ID for any proxy, not even for one that has all fields and labels.
pub(super) fn warnings(spiffe_id: &SpiffeId) -> Vec<String> {
    let SpiffeId { trust_domain, path } = spiffe_id;
    let trust_domain = trust_domain.as_deref().and_then(|template| {
        fault(template, &TRUST_DOMAIN_FIELDS, |rendered| (rendered.to_owned(), String::new()))
            .map(|fault| format!("spec.spiffeID.trustDomain {fault}"))
    });
    let path = path.as_deref().and_then(|template| {
        fault(template, &PATH_FIELDS, |rendered| (SAMPLE_TRUST_DOMAIN.to_owned(), rendered.to_owned()))
            .map(|fault| format!("spec.spiffeID.path {fault}"))
    });
    trust_domain.into_iter().chain(path).collect()
}

/// `parts` splits the rendered text into the trust domain and the path of an ID.
fn fault(template: &str, fields: &[&'static str], parts: impl Fn(&str) -> (String, String)) -> Option<String> {
    let template = Template::parse(template, &FUNCTIONS).ok()?;
    let sample = |name: &'static str| match name {
        "TrustDomain" => SAMPLE_TRUST_DOMAIN.to_owned(),
        name => name.to_ascii_lowercase(),
    };
    let fields: BTreeMap<_, _> = fields.iter().map(|name| (*name, sample(name))).collect();
    let rendered = match template.render(&fields, &|function, _| Ok(function.to_owned())) {
        Ok(rendered) => rendered,
        Err(error) => return Some(format!("cannot be rendered: {error}")),
    };
    let (trust_domain, path) = parts(&rendered);
    let reason = match spiffe::parse(&format!("spiffe://{trust_domain}{path}")) {
        Err(error) => error.to_string(),
        Ok(id) if id.trust_domain == trust_domain => return None,
        Ok(_) if path.is_empty() => "trust domain must not have a path".to_owned(),
        Ok(_) => "path must start with a slash".to_owned(),
    };
    Some(format!("renders to {} which is not part of a valid SPIFFE ID: {reason}", quote(&rendered)))
}
