//! The names of the mesh and their addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Deserialize;

use super::message::{TYPE_A, TYPE_AAAA};

/// Where the control plane does not say how long an answer holds.
const USUAL_TTL: u32 = 30;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    /// By the name in small letters, without the dot at the end.
    records: BTreeMap<String, Vec<IpAddr>>,
    pub(super) ttl: u32,
}

/// As the control plane writes it. What it says besides is for others.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    records: Vec<Record>,
    ttl: Option<u32>,
}

#[derive(Deserialize)]
struct Record {
    name: String,
    #[serde(default)]
    ips: Vec<IpAddr>,
}

impl Default for Table {
    fn default() -> Self {
        Self { records: BTreeMap::new(), ttl: USUAL_TTL }
    }
}

impl Table {
    pub(super) fn from_json(text: &[u8]) -> Result<Self, serde_json::Error> {
        let Document { records, ttl } = serde_json::from_slice(text)?;
        let records = records.into_iter().map(|Record { name, ips }| (plain(&name), ips)).collect();
        Ok(Self { records, ttl: ttl.unwrap_or(USUAL_TTL) })
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// The addresses of one type; none where the name has none of it. `None` for names that are not of the mesh.
    ///
    /// All types of a known name are answered: a resolver outside would say that the name does not exist, and clients
    /// would believe it for its addresses too.
    pub(super) fn lookup(&self, name: &str, kind: u16, ipv6: bool) -> Option<Vec<IpAddr>> {
        let wanted = |address: &&IpAddr| match address {
            IpAddr::V4(_) => kind == TYPE_A,
            IpAddr::V6(_) => kind == TYPE_AAAA && ipv6,
        };
        Some(self.records.get(name)?.iter().filter(wanted).copied().collect())
    }
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
    fn odd_documents_are_refused_as_a_whole() {
        for text in ["", "[]", "{\"records\": [{\"ips\": []}]}", "{\"records\": [{\"name\": \"a\", \"ips\": [\"x\"]}]}"]
        {
            assert!(Table::from_json(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(Table::from_json(b"{}").unwrap(), Table::default());
    }
}
