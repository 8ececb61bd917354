//! Encoded resources, and the set of them for one proxy.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;

use crate::type_url::TypeUrl;

/// Hash of the content: equal on every machine and after every restart, so that a reconnecting proxy can report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u128);

impl Version {
    /// `None` for a foreign version; it equals no known one.
    pub fn from_wire(text: &str) -> Option<Self> {
        let ours = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        ours.then(|| u128::from_str_radix(text, 16).ok().map(Self)).flatten()
    }

    /// Version of a set: FNV-1a over names and versions, in the order of names.
    pub fn of_set<'a>(set: impl IntoIterator<Item = (&'a str, Version)>) -> Self {
        const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        let step = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(PRIME);
        let hash = set.into_iter().fold(OFFSET, |hash, (name, version)| {
            let named = name.bytes().fold(hash, step);
            version.0.to_be_bytes().into_iter().fold(step(named, 0), step)
        });
        Self(hash)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A reference to another resource.
pub type Need = (TypeUrl, Arc<str>);

/// A resource in wire format, shared by all proxies that get it.
#[derive(Debug, Clone)]
pub struct Encoded {
    pub name: Arc<str>,
    pub version: Version,
    /// Resources that it refers to, which may be part of the client's bootstrap. The order of responses follows from them.
    pub needs: Box<[Need]>,
    /// One entry of `resources` in a delta response, with its tag and length.
    pub delta: Bytes,
    /// One entry of `resources` in a state-of-the-world response. A slice of `delta`, not a copy.
    pub sotw: Bytes,
}

/// The version is a hash of the bytes, so they need not be compared.
impl PartialEq for Encoded {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version && self.name == other.name
    }
}
impl Eq for Encoded {}

/// Resources of one type by name. Clones share structure, and the cost of a diff is proportional to the difference.
pub type Resources = OrdMap<Arc<str>, Arc<Encoded>>;

/// All resources of one proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceSet {
    of: [Resources; TypeUrl::COUNT],
}

impl ResourceSet {
    pub fn of(&self, type_url: TypeUrl) -> &Resources {
        &self.of[type_url.index()]
    }

    pub fn insert(&mut self, type_url: TypeUrl, resource: Arc<Encoded>) {
        self.of[type_url.index()].insert(resource.name.clone(), resource);
    }

    pub fn remove(&mut self, type_url: TypeUrl, name: &str) {
        self.of[type_url.index()].remove(name);
    }

    /// Takes a whole map, which other proxies may share.
    pub fn replace(&mut self, type_url: TypeUrl, resources: Resources) {
        self.of[type_url.index()] = resources;
    }
}

/// A validated set of resources, complete for its proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Revision of the inputs, for insights and logs; no decision depends on it.
    pub revision: u64,
    pub resources: ResourceSet,
}

impl Snapshot {
    pub fn of(&self, type_url: TypeUrl) -> &Resources {
        self.resources.of(type_url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_round_trip_and_others_are_foreign() {
        let version = Version(0xabc);
        assert_eq!(Version::from_wire(&version.to_string()), Some(version));
        for foreign in ["", "abc", "+0000000000000000000000000000abc", "00000000000000000000000000000ABC"] {
            assert_eq!(Version::from_wire(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn the_version_of_a_set_depends_on_names_and_versions() {
        let of = |set: &[(&'static str, u128)]| Version::of_set(set.iter().map(|(name, v)| (*name, Version(*v))));
        assert_eq!(of(&[("a", 1)]), of(&[("a", 1)]));
        assert_ne!(of(&[("a", 1)]), of(&[("a", 2)]));
        assert_ne!(of(&[("a", 1)]), of(&[("b", 1)]));
        assert_ne!(of(&[]), of(&[("a", 1)]));
    }
}
