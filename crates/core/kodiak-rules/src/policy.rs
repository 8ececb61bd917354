//! Inputs of matching: policies and proxies.

use std::sync::Arc;

use kodiak_model::{
    Kind, Kri, Labels, ProxyKey,
    kinds::dataplane::{Admission, Dataplane},
    policy::Body,
};

use crate::Meta;

/// A policy in generic form.
#[derive(Debug, Clone)]
pub struct Policy {
    pub kind: &'static Kind,
    pub mesh: Arc<str>,
    pub name: Arc<str>,
    pub labels: Arc<Labels>,
    pub body: Body,
}

/// The parts of a proxy that matching needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Proxy {
    pub mesh: Arc<str>,
    pub name: Arc<str>,
    pub labels: Arc<Labels>,
    pub dataplane: Arc<Dataplane>,
    /// Claims of the token with which the proxy registered its Dataplane, if it did.
    pub admission: Option<Arc<Admission>>,
}

impl Policy {
    pub fn meta(&self) -> Meta<'_> {
        Meta { mesh: &self.mesh, name: &self.name, labels: &self.labels }
    }

    pub fn kri(&self) -> Kri {
        Kri::of(self.kind, &self.mesh, &self.name, &self.labels).expect("every policy has a short name")
    }
}

/// Kinds are compared by name.
impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        let Self { kind, mesh, name, labels, body } = self;
        (kind.name, mesh, name, labels, body) == (other.kind.name, &other.mesh, &other.name, &other.labels, &other.body)
    }
}

impl Proxy {
    pub fn key(&self) -> ProxyKey {
        ProxyKey { mesh: self.mesh.clone(), name: self.name.clone() }
    }

    pub fn meta(&self) -> Meta<'_> {
        Meta { mesh: &self.mesh, name: &self.name, labels: &self.labels }
    }
}
