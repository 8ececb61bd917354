//! All modifications for one proxy, in the order in which they are applied.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use kodiak_model::policy::Conf as PolicyConf;

use super::{
    Conf, Modification,
    step::{ResourceType, Step},
};

/// Origin of resources that modifications add.
pub const ADDED: &str = "proxy-template-modifications";

/// Modifications of all policies that select a proxy, those of policies with lower precedence first. Equal lists compare
/// as equal, however they were made.
#[derive(Debug)]
pub struct ProxyPatches {
    /// Names and confs of the policies.
    identity: String,
    steps: Vec<Step>,
}

impl ProxyPatches {
    /// `None` if the policies have no modification.
    pub fn of<'a>(policies: impl IntoIterator<Item = (&'a str, &'a PolicyConf)>) -> Option<Self> {
        let (mut identity, mut steps) = (String::new(), Vec::new());
        for (name, conf) in policies {
            let Conf { append_modifications } = conf.read();
            let written = append_modifications.unwrap_or_default();
            steps.extend(written.iter().enumerate().map(|(n, modification)| Step::of(name, n, modification)));
            identity.extend([format!("{name:?}"), conf.json().to_string()]);
        }
        (!steps.is_empty()).then_some(Self { identity, steps })
    }

    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The step that removed a cluster which the generated configuration has. One that names the cluster is preferred.
    pub fn remover(&self, cluster: &str) -> Option<&Arc<str>> {
        let removers = || self.steps.iter().filter(|step| step.removes_cluster(cluster));
        removers().find(|step| !step.removes_cluster("")).or_else(|| removers().next()).map(Step::at)
    }
}

impl PartialEq for ProxyPatches {
    fn eq(&self, other: &Self) -> bool {
        self.identity == other.identity
    }
}

impl Eq for ProxyPatches {}

impl Hash for ProxyPatches {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity.hash(state);
    }
}

impl PartialOrd for ProxyPatches {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ProxyPatches {
    fn cmp(&self, other: &Self) -> Ordering {
        self.identity.cmp(&other.identity)
    }
}

/// Whether a fault of a proxy was caused by the policy with this name.
pub fn is_fault_of(fault: &str, policy: &str) -> bool {
    fault.strip_prefix("MeshProxyPatch ").is_some_and(|rest| rest.starts_with(&format!("{policy:?}: ")))
}

/// Whether a conf has modifications of resources of a type.
pub fn changes(conf: &PolicyConf, resource_type: ResourceType) -> bool {
    let Conf { append_modifications } = conf.read();
    let is_of_type = |modification: &Modification| match resource_type {
        ResourceType::Cluster => modification.cluster.is_some(),
        ResourceType::Listener => modification.cluster.is_none(),
    };
    append_modifications.unwrap_or_default().iter().any(is_of_type)
}

#[cfg(test)]
mod tests;
