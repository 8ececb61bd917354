//! Validation contexts: trusted CAs, and the SPIFFE IDs that are accepted.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use xxhash_rust::xxh3::Xxh3Default;

/// Validation context of a listener or of a cluster, sent as a secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Validation {
    /// Name of the secret.
    pub name: Arc<str>,
    pub trusted: TrustedCas,
    /// SPIFFE IDs, of which the certificate must have one; when empty, any of a trusted domain is accepted. Sorted.
    pub accepted: Vec<String>,
}

/// CAs that the proxies of a mesh trust. All validation contexts of the mesh share them, so they are hashed once.
#[derive(Debug, Clone)]
pub struct TrustedCas {
    hash: u64,
    cas: Arc<Cas>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Cas {
    /// Root certificates (PEM) of the backends of a mesh.
    Mesh { mesh: Arc<str>, roots: Arc<str> },
    /// Root certificates (PEM) by trust domain, sorted.
    Domains(Arc<[(Arc<str>, Arc<str>)]>),
}

impl TrustedCas {
    pub fn new(cas: Cas) -> Self {
        let mut hasher = Xxh3Default::new();
        cas.hash(&mut hasher);
        Self { hash: hasher.finish(), cas: Arc::new(cas) }
    }

    pub fn get(&self) -> &Cas {
        &self.cas
    }
}

impl PartialEq for TrustedCas {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.cas, &other.cas) || (self.hash == other.hash && self.cas == other.cas)
    }
}

impl Eq for TrustedCas {}

impl Hash for TrustedCas {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}
