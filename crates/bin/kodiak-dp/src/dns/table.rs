//! The names of the mesh and their addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::Deserialize;

use super::message::{TYPE_A, TYPE_AAAA};

/// Default TTL of a response.
const USUAL_TTL: u32 = 30;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    /// By the name in lower case, without the trailing dot.
    records: BTreeMap<String, Vec<IpAddr>>,
    /// Domains in which the control plane knows more names; those without a dot are in the domain "".
    domains: BTreeSet<String>,
    pub(super) ttl: u32,
}

/// As the control plane writes it. Other fields are ignored.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    records: Vec<Record>,
    ttl: Option<u32>,
    #[serde(default)]
    domains: Vec<String>,
}

#[derive(Deserialize)]
struct Record {
    name: String,
    #[serde(default)]
    ips: Vec<IpAddr>,
}

impl Default for Table {
    fn default() -> Self {
        Self { records: BTreeMap::new(), domains: BTreeSet::new(), ttl: USUAL_TTL }
    }
}

impl Table {
    pub(super) fn from_json(text: &[u8]) -> Result<Self, serde_json::Error> {
        let Document { records, ttl, domains } = serde_json::from_slice(text)?;
        let records = records.into_iter().map(|Record { name, ips }| (plain(&name), ips)).collect();
        let domains = domains.iter().map(|domain| plain(domain)).collect();
        Ok(Self { records, domains, ttl: ttl.unwrap_or(USUAL_TTL) })
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Addresses of one type; empty when the name has none of it. `None` for names that are not of the mesh.
    ///
    /// All types of a known name are answered: a nameserver outside would answer that the name does not exist, and clients
    /// would apply that to its addresses too.
    pub(super) fn lookup(&self, name: &str, kind: u16, ipv6: bool) -> Option<Vec<IpAddr>> {
        Some(of_type(self.records.get(name)?, kind, ipv6))
    }

    /// Whether the control plane may know this name.
    pub(super) fn is_asked(&self, name: &str) -> bool {
        let dots = name.match_indices('.').map(|(dot, _)| &name[dot + 1..]);
        let mut domains = dots.chain((!name.contains('.')).then_some(""));
        !self.records.contains_key(name) && domains.any(|domain| self.domains.contains(domain))
    }
}

/// The addresses that answer a question of this type.
pub(super) fn of_type(addresses: &[IpAddr], kind: u16, ipv6: bool) -> Vec<IpAddr> {
    let wanted = |address: &&IpAddr| match address {
        IpAddr::V4(_) => kind == TYPE_A,
        IpAddr::V6(_) => kind == TYPE_AAAA && ipv6,
    };
    addresses.iter().filter(wanted).copied().collect()
}

fn plain(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up() {
        let table = Table::from_json(
            br#"{"records": [
                {"name": "web.mesh.local", "ips": ["240.0.0.1", "240.0.0.2", "::ffff:f000:1"]},
                {"name": "Only4.mesh.", "ips": ["240.0.0.3"]},
                {"name": "empty.mesh"}
            ], "ttl": 7, "extraLabels": {}}"#,
        )
        .unwrap();
        assert_eq!((table.ttl, table.len()), (7, 3));
        let web: &[&str] = &["240.0.0.1", "240.0.0.2"];
        for (name, kind, ipv6, expected) in [
            ("web.mesh.local", TYPE_A, true, Some(web)),
            ("web.mesh.local", TYPE_A, false, Some(web)),
            ("web.mesh.local", TYPE_AAAA, true, Some(&["::ffff:240.0.0.1"][..])),
            ("web.mesh.local", TYPE_AAAA, false, Some(&[])),
            ("web.mesh.local", 65, true, Some(&[])),
            ("only4.mesh", TYPE_A, true, Some(&["240.0.0.3"])),
            ("only4.mesh", TYPE_AAAA, true, Some(&[])),
            ("empty.mesh", TYPE_A, true, Some(&[])),
            ("mesh.local", TYPE_A, true, None),
            ("x.web.mesh.local", TYPE_A, true, None),
            ("", TYPE_A, true, None),
        ] {
            let expected = expected.map(|all| all.iter().map(|ip| ip.parse().unwrap()).collect::<Vec<IpAddr>>());
            assert_eq!(table.lookup(name, kind, ipv6), expected, "{name} {kind} {ipv6}");
        }
    }

    #[test]
    fn unknown_names_in_the_domains_of_the_mesh_are_asked_for() {
        let table = |domains: &str| {
            let text = format!(r#"{{"records": [{{"name": "web.mesh"}}], "domains": {domains}}}"#);
            Table::from_json(text.as_bytes()).unwrap()
        };
        let all =
            ["web.mesh", "api.mesh", "a.b.mesh", "mesh", "xmesh", "api.xmesh", "api.svc.local", "example.com", ""];
        let asked = |table: &Table| all.into_iter().filter(|name| table.is_asked(name)).collect::<Vec<_>>();
        assert_eq!(asked(&table("[]")), [""; 0]);
        assert_eq!(asked(&table(r#"["mesh", "svc.local"]"#)), ["api.mesh", "a.b.mesh", "api.svc.local"]);
        assert_eq!(asked(&table(r#"[""]"#)), ["mesh", "xmesh", ""]);
    }

    #[test]
    fn invalid_documents_are_rejected() {
        for text in ["", "[]", "{\"records\": [{\"ips\": []}]}", "{\"records\": [{\"name\": \"a\", \"ips\": [\"x\"]}]}"]
        {
            assert!(Table::from_json(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(Table::from_json(b"{}").unwrap(), Table::default());
    }
}
