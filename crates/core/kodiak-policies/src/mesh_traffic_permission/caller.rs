//! Who calls, as the certificate says it.

use std::collections::{BTreeMap, BTreeSet};

use kodiak_model::tags::SERVICE;

/// A connection to an inbound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Caller<'a> {
    /// The URIs of its certificate: one SPIFFE ID, or what [`uris`] makes of its tags.
    pub uris: &'a [String],
    /// The server name that it asked for.
    pub sni: Option<&'a str>,
}

/// The URIs by which a proxy with these tags is known in a mesh with a CA of its own: services, then all tags.
pub fn uris<'t>(mesh: &str, tag_sets: impl IntoIterator<Item = &'t BTreeMap<String, String>>) -> Vec<String> {
    let tags: BTreeSet<(&String, &String)> = tag_sets.into_iter().flatten().collect();
    let services = tags.iter().filter(|(key, _)| *key == SERVICE).map(|(_, service)| tag_uri(mesh, SERVICE, service));
    services.chain(tags.iter().map(|(key, value)| format!("kuma://{key}/{value}"))).collect()
}

/// The URI that stands for a tag. A service is the identity itself.
pub(super) fn tag_uri(mesh: &str, key: &str, value: &str) -> String {
    let (scheme, authority) = parts(mesh, key);
    format!("{scheme}{authority}/{value}")
}

/// What comes before the slash and the value.
fn parts<'a>(mesh: &'a str, key: &'a str) -> (&'static str, &'a str) {
    if key == SERVICE { ("spiffe://", mesh) } else { ("kuma://", key) }
}

impl Caller<'_> {
    /// `*` stands for any value. A proxy of several services has the tags of all of them.
    pub(super) fn has_tag(&self, mesh: &str, key: &str, value: &str) -> bool {
        let (scheme, authority) = parts(mesh, key);
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
    fn services_come_first_and_everything_once() {
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
    fn any_value_of_a_tag_is_not_a_value_of_a_longer_tag() {
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
