//! Caller identity, from its certificate.

use std::collections::{BTreeMap, BTreeSet};

use kodiak_model::tags::SERVICE;

use crate::caller_uris;

/// Caller of a connection to an inbound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Caller<'a> {
    /// URI SANs of its certificate: one SPIFFE ID, or the result of [`uris`] for its tags.
    pub uris: &'a [String],
    /// SNI of the connection.
    pub sni: Option<&'a str>,
}

/// URI SANs of a proxy with these tags, in a mesh with an mTLS backend: services, then all tags.
pub fn uris<'t>(mesh: &str, tag_sets: impl IntoIterator<Item = &'t BTreeMap<String, String>>) -> Vec<String> {
    let tags: BTreeSet<(&String, &String)> = tag_sets.into_iter().flatten().collect();
    let services =
        tags.iter().filter(|(key, _)| *key == SERVICE).map(|(_, service)| caller_uris::of_tag(mesh, SERVICE, service));
    services.chain(tags.iter().map(|(key, value)| format!("kuma://{key}/{value}"))).collect()
}

impl Caller<'_> {
    /// `*` matches any value. A proxy with several services has the tags of all of them.
    pub(super) fn has_tag(&self, mesh: &str, key: &str, value: &str) -> bool {
        let (scheme, authority) = caller_uris::parts(mesh, key);
        let value_in = |uri: &str| {
            let found = uri.strip_prefix(scheme)?.strip_prefix(authority)?.strip_prefix('/')?;
            Some(if value == "*" { !found.is_empty() && !found.contains('/') } else { found == value })
        };
        self.uris.iter().any(|uri| value_in(uri) == Some(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn uris_list_services_first_without_duplicates() {
        let sets = [tags(&[(SERVICE, "web"), ("env", "dev")]), tags(&[(SERVICE, "api"), ("env", "dev"), ("a/b", "c")])];
        assert_eq!(
            uris("default", &sets),
            [
                "spiffe://default/api",
                "spiffe://default/web",
                "kuma://a/b/c",
                "kuma://env/dev",
                "kuma://kuma.io/service/api",
                "kuma://kuma.io/service/web",
            ]
        );
    }

    #[test]
    fn wildcard_value_does_not_match_a_longer_key() {
        let uris = uris("default", &[tags(&[(SERVICE, "web"), ("a/b", "c")])]);
        let caller = Caller { uris: &uris, sni: None };
        for (key, value, expected) in [
            (SERVICE, "web", true),
            (SERVICE, "*", true),
            (SERVICE, "we", false),
            ("a/b", "c", true),
            ("a/b", "*", true),
            ("a", "*", false),
            ("b", "*", false),
        ] {
            assert_eq!(caller.has_tag("default", key, value), expected, "{key}={value}");
        }
        assert!(!caller.has_tag("other", SERVICE, "*") && !caller.has_tag("defaul", SERVICE, "*"));
    }
}
