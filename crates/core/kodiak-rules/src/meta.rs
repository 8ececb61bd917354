//! Identity and origin of a resource, from its labels.

use kodiak_model::{Labels, labels};

#[derive(Debug, Clone, Copy)]
pub struct Meta<'a> {
    pub mesh: &'a str,
    pub name: &'a str,
    pub labels: &'a Labels,
}

/// Where a resource was created. In ascending precedence of policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    Global,
    Unknown,
    Zone,
}

/// Role of a policy: its author, and the proxies it applies to. In ascending precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Of the mesh operator, for all proxies.
    System,
    /// Of a service owner, for its clients in all namespaces.
    Producer,
    /// Of a client owner, for outbound traffic of their namespace.
    Consumer,
    /// Of a workload owner, for the proxies of their namespace.
    WorkloadOwner,
}

impl<'a> Meta<'a> {
    pub fn display_name(&self) -> &'a str {
        labels::display_name(self.labels, self.name)
    }

    pub fn origin(&self) -> Origin {
        match self.label(labels::ORIGIN) {
            Some("global") => Origin::Global,
            Some("zone") => Origin::Zone,
            _ => Origin::Unknown,
        }
    }

    /// `None` without zones, and for resources of the global control plane.
    pub fn zone(&self) -> Option<&'a str> {
        self.label(labels::ZONE)
    }

    /// `None` outside Kubernetes.
    pub fn namespace(&self) -> Option<&'a str> {
        self.label(labels::NAMESPACE)
    }

    /// `System` unless the label says otherwise.
    pub fn role(&self) -> Role {
        match self.label(labels::POLICY_ROLE) {
            Some("producer") => Role::Producer,
            Some("consumer") => Role::Consumer,
            Some("workload-owner") => Role::WorkloadOwner,
            _ => Role::System,
        }
    }

    /// A shadow policy: it appears in the dry run, without effect on proxies.
    pub fn is_shadow(&self) -> bool {
        self.label(labels::EFFECT) == Some("shadow")
    }

    /// An empty label counts as missing.
    fn label(&self, key: &str) -> Option<&'a str> {
        self.labels.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }
}
