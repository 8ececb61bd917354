//! The policies of one kind that are about one proxy.

use std::{collections::BTreeMap, sync::Arc};

use crate::{Policy, gateway::Listener};

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
