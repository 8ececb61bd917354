//! The policies of one kind that are about one proxy.

use std::{collections::BTreeMap, sync::Arc};

use crate::{Policy, Selection, gateway::Listener};

/// Weakest first, everywhere.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Matched {
    /// All of them: what does not belong to an inbound follows these.
    pub proxy: Vec<Arc<Policy>>,
    /// By the index of the inbound. Inbounds without policies are missing.
    pub inbounds: BTreeMap<usize, Vec<Arc<Policy>>>,
    /// By the index in `networking.listeners`.
    pub listeners: BTreeMap<usize, Vec<Arc<Policy>>>,
    /// Of builtin gateways.
    pub gateway: BTreeMap<Listener, Vec<Arc<Policy>>>,
    /// What could not be followed, in Kuma's words.
    pub warnings: Vec<String>,
}

impl Matched {
    /// Adds what a policy selects. Weaker ones come first.
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
