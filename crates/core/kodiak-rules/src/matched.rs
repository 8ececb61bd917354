//! The policies of one kind that match one proxy.

use std::{collections::BTreeMap, sync::Arc};

use crate::{Policy, Selection, gateway::Listener};

/// All lists are in ascending precedence.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Matched {
    /// All of them: they apply to everything that does not belong to an inbound.
    pub proxy: Vec<Arc<Policy>>,
    /// By the index of the inbound. Inbounds without policies are missing.
    pub inbounds: BTreeMap<usize, Vec<Arc<Policy>>>,
    /// By the index in `networking.listeners`.
    pub listeners: BTreeMap<usize, Vec<Arc<Policy>>>,
    /// Of builtin gateways.
    pub gateway: BTreeMap<Listener, Vec<Arc<Policy>>>,
    /// Policies that could not be resolved, in Kuma's wording.
    pub warnings: Vec<String>,
}

impl Matched {
    /// Adds the selection of a policy. Must be called in ascending precedence.
    pub(crate) fn add(&mut self, policy: &Arc<Policy>, selection: &Selection) {
        let Selection { proxy, inbounds, listeners, gateway, warning } = selection;
        if *proxy {
            self.proxy.push(Arc::clone(policy));
        }
        for inbound in inbounds {
            self.inbounds.entry(*inbound).or_default().push(Arc::clone(policy));
        }
        for listener in listeners {
            self.listeners.entry(*listener).or_default().push(Arc::clone(policy));
        }
        for listener in gateway {
            self.gateway.entry(listener.clone()).or_default().push(Arc::clone(policy));
        }
        self.warnings.extend(warning.clone());
    }
}
