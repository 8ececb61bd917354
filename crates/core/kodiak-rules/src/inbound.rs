//! Rules for callers by what identifies them (`rules`), at one inbound.

use std::sync::Arc;

use kodiak_model::{policy::Conf, source_match::Match};

use crate::Policy;

#[derive(Debug, Clone, PartialEq)]
pub struct InboundRule {
    /// `None`: for everybody.
    pub matches: Option<Match>,
    pub conf: Conf,
    pub policy: Arc<Policy>,
    /// Which item of the policy.
    pub index: usize,
}

/// Policies weakest first; so are the rules that are for everybody, which come after all others.
pub fn rules(policies: &[Arc<Policy>]) -> Vec<InboundRule> {
    todo!()
}

/// What the rules for everybody say together.
pub fn for_everybody(rules: &[InboundRule]) -> Option<Conf> {
    todo!()
}
