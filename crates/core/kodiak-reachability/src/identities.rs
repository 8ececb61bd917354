//! Certificates that clients present or will present. Equal ones are one identity, of any number of clients.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use kodiak_policies::mesh_traffic_permission::{Callers, UriMatch};
use roaring::RoaringBitmap;

use crate::IdentitySet;

/// URIs of one certificate: a SPIFFE ID, or the URIs of all tags.
pub type Certificate = Arc<[String]>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdentityId(pub(crate) u32);

/// Interner of certificates, with an index by URI.
#[derive(Default)]
pub(crate) struct Identities {
    ids: HashMap<Certificate, (IdentityId, usize)>,
    certificates: BTreeMap<IdentityId, Certificate>,
    by_uri: BTreeMap<String, RoaringBitmap>,
    /// Numbers of identities that are gone.
    free: Vec<u32>,
    next: u32,
}

/// Whether an identity was known before.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    New(IdentityId),
    Known(IdentityId),
}

impl Identities {
    pub(crate) fn join(&mut self, certificate: &Certificate) -> Joined {
        if let Some((id, users)) = self.ids.get_mut(certificate) {
            *users += 1;
            return Joined::Known(*id);
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        let id = IdentityId(number);
        for uri in certificate.iter() {
            self.by_uri.entry(uri.clone()).or_default().insert(number);
        }
        self.ids.insert(certificate.clone(), (id, 1));
        self.certificates.insert(id, certificate.clone());
        Joined::New(id)
    }

    /// Returns whether that was its last user. Its number may be given to another identity: sets must not contain it.
    pub(crate) fn leave(&mut self, id: IdentityId) -> bool {
        let certificate = self.certificates[&id].clone();
        let (_, users) = self.ids.get_mut(&certificate).expect("every certificate has a number");
        *users -= 1;
        if *users > 0 {
            return false;
        }
        for uri in certificate.iter() {
            if let Some(of_uri) = self.by_uri.get_mut(uri) {
                of_uri.remove(id.0);
                if of_uri.is_empty() {
                    self.by_uri.remove(uri);
                }
            }
        }
        self.ids.remove(&certificate);
        self.certificates.remove(&id);
        self.free.push(id.0);
        true
    }

    pub(crate) fn certificate(&self, id: IdentityId) -> &Certificate {
        &self.certificates[&id]
    }

    pub(crate) fn len(&self) -> usize {
        self.certificates.len()
    }

    fn starting_with(&self, prefix: &str, wanted: impl Fn(&str) -> bool) -> IdentitySet {
        let found = self.by_uri.range(prefix.to_owned()..).take_while(|(uri, _)| uri.starts_with(prefix));
        let found = found.filter(|(uri, _)| wanted(&uri[prefix.len()..]));
        IdentitySet::Only(Arc::new(found.fold(RoaringBitmap::new(), |all, (_, one)| all | one)))
    }
}

impl Callers for Identities {
    type Set = IdentitySet;

    fn nobody(&self) -> IdentitySet {
        IdentitySet::nobody()
    }

    fn everybody(&self) -> IdentitySet {
        IdentitySet::everybody()
    }

    fn with_uri(&self, uri: &str) -> IdentitySet {
        IdentitySet::Only(self.by_uri.get(uri).cloned().map(Arc::new).unwrap_or_default())
    }

    fn with_tag(&self, uri_without_value: &str) -> IdentitySet {
        self.starting_with(uri_without_value, |value| !value.is_empty() && !value.contains('/'))
    }

    fn with_prefix(&self, prefix: &str) -> IdentitySet {
        self.starting_with(prefix, |_| true)
    }

    fn union(&self, a: &IdentitySet, b: &IdentitySet) -> IdentitySet {
        a.union(b)
    }

    fn intersection(&self, a: &IdentitySet, b: &IdentitySet) -> IdentitySet {
        a.intersection(b)
    }

    fn difference(&self, a: &IdentitySet, b: &IdentitySet) -> IdentitySet {
        a.difference(b)
    }
}

/// Conditions that a URI satisfies, among those that permissions may have.
pub(crate) fn matches_of(uri: &str) -> impl Iterator<Item = UriMatch> + '_ {
    let value = uri.rfind('/').map(|end| UriMatch::AnyValue(uri[..=end].to_owned()));
    let prefixes = uri.char_indices().map(|(at, each)| UriMatch::Prefix(uri[..at + each.len_utf8()].to_owned()));
    [UriMatch::Exact(uri.to_owned())].into_iter().chain(value).chain(prefixes)
}
