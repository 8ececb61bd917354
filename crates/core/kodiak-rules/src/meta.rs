//! What a resource is called and where it comes from, read from its labels.

use kodiak_model::{Labels, labels};

#[derive(Debug, Clone, Copy)]
pub struct Meta<'a> {
    pub mesh: &'a str,
    pub name: &'a str,
    pub labels: &'a Labels,
}

/// Who a resource was made by. In the order in which policies win: the last one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    Global,
    Unknown,
    Zone,
}

/// Who writes a policy, and for whom. In the order in which policies win: the last one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The operator of the mesh, for everybody.
    System,
    /// The owner of a service, for its callers in all namespaces.
    Producer,
    /// The owner of callers, for the calls of their namespace.
    Consumer,
    /// The owner of proxies, for the proxies of their namespace.
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

    /// `None` where there are no zones, and for what the global control plane made.
    pub fn zone(&self) -> Option<&'a str> {
        self.label(labels::ZONE)
    }

    /// `None` outside Kubernetes.
    pub fn namespace(&self) -> Option<&'a str> {
        self.label(labels::NAMESPACE)
    }

    /// The operator's, unless the label says another.
    pub fn role(&self) -> Role {
        match self.label(labels::POLICY_ROLE) {
            Some("producer") => Role::Producer,
            Some("consumer") => Role::Consumer,
            Some("workload-owner") => Role::WorkloadOwner,
            _ => Role::System,
        }
    }

    /// A policy that is only tried out: it shows in what would be, not in what is.
    pub fn is_shadow(&self) -> bool {
        self.label(labels::EFFECT) == Some("shadow")
    }

    /// An empty label says as little as none.
    fn label(&self, key: &str) -> Option<&'a str> {
        self.labels.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }
}
