//! URI SANs of callers' certificates: of their tags, and matched by Envoy.
//!
//! Envoy's matchers see all URIs of a certificate joined with commas, as in `spiffe://mesh/web,kuma://env/dev`. The
//! regular expressions here match one URI of them.

use std::collections::BTreeMap;

use kodiak_model::{TargetKind, TargetRef, tags::SERVICE};

/// Tags that the callers of an item of `from` have: none for all callers. `None` for a target that no caller can be, as
/// certificates do not contain the labels of a service, and for a kind that another version wrote.
pub(crate) fn tags(target: &TargetRef) -> Option<BTreeMap<String, String>> {
    let TargetRef { name, tags: written, .. } = target;
    let mut tags = BTreeMap::new();
    let kind = target.known_kind()?;
    if let TargetKind::MeshSubset | TargetKind::MeshServiceSubset = kind {
        tags.extend(written.clone().unwrap_or_default());
    }
    match kind {
        TargetKind::Mesh | TargetKind::MeshSubset => (),
        TargetKind::MeshService | TargetKind::MeshServiceSubset => {
            let name = name.as_ref().filter(|name| !name.is_empty())?;
            tags.insert(SERVICE.to_owned(), name.clone());
        }
        TargetKind::MeshGateway
        | TargetKind::MeshExternalService
        | TargetKind::MeshMultiZoneService
        | TargetKind::MeshHTTPRoute
        | TargetKind::Dataplane => return None,
    }
    Some(tags)
}

/// URI of a tag. For `kuma.io/service` it is the SPIFFE ID.
pub(crate) fn of_tag(mesh: &str, key: &str, value: &str) -> String {
    let (scheme, authority) = parts(mesh, key);
    format!("{scheme}{authority}/{value}")
}

/// Scheme, and the part before the value.
pub(crate) fn parts<'a>(mesh: &'a str, key: &'a str) -> (&'static str, &'a str) {
    if key == SERVICE { ("spiffe://", mesh) } else { ("kuma://", key) }
}

/// Regular expression for certificates with this URI.
pub(crate) fn exact(uri: &str) -> String {
    format!("(.*,)?{}(,.*)?", regex_lite::escape(uri))
}

/// Regular expression for certificates with this SPIFFE ID, or one below it.
pub(crate) fn prefix(spiffe_id: &str) -> String {
    format!("(.*,)?{}([/,].*)?", regex_lite::escape(spiffe_id.trim_end_matches('/')))
}

/// Regular expression for certificates with a tag; `*` is any value.
pub(crate) fn tag(mesh: &str, key: &str, value: &str) -> String {
    match value {
        "*" => format!("(.*,)?{}[^/,]+(,.*)?", regex_lite::escape(&of_tag(mesh, key, ""))),
        value => exact(&of_tag(mesh, key, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::{exact, prefix, tag};

    #[test]
    fn one_uri_of_a_certificate_matches_as_a_whole() {
        const URIS: &str = "spiffe://default/web,kuma://a/b/c,kuma://kuma.io/service/web,kuma://version/v1.2";
        let web = tag("default", "kuma.io/service", "web");
        for (regex, expected) in [
            (exact("spiffe://default/web"), true),
            (exact("kuma://version/v1.2"), true),
            (exact("spiffe://default/we"), false),
            (exact("spiffe://default"), false),
            (prefix("spiffe://default"), true),
            (prefix("spiffe://default/web"), true),
            (prefix("spiffe://defaul"), false),
            (prefix("spiffe://default/web/below"), false),
            (web, true),
            (tag("other", "kuma.io/service", "web"), false),
            (tag("default", "kuma.io/service", "*"), true),
            (tag("default", "version", "v1.2"), true),
            (tag("default", "version", "v1x2"), false),
            (tag("default", "version", "v1"), false),
            (tag("default", "a/b", "*"), true),
            (tag("default", "a", "*"), false),
            (tag("default", "b", "*"), false),
        ] {
            let full = regex_lite::Regex::new(&format!("^(?:{regex})$")).unwrap();
            assert_eq!(full.is_match(URIS), expected, "{regex}");
        }
    }
}
