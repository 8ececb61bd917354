//! Condition of a MeshService that names members whose token does not bind the selected fields.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_model::{
    Condition,
    kinds::{dataplane::Admission, mesh_service::Selector},
};
use kodiak_rules::Proxy;

/// Type of the condition, which exists only while there are such members.
const VOUCHED: &str = "MembersVouchedFor";
/// Limit of named members; the others are counted.
const MOST_NAMED: usize = 10;

#[derive(Debug, Default)]
pub(super) struct Unvouched {
    members: BTreeSet<Arc<str>>,
    unbound: BTreeSet<String>,
}

impl Unvouched {
    pub(super) fn note(&mut self, proxy: &Proxy, admission: &Admission, selector: &Selector) {
        self.members.insert(proxy.name.clone());
        self.unbound.extend(admission.unbound(selector));
    }

    pub(super) fn report(&self, conditions: &mut Vec<Condition>) {
        conditions.retain(|condition| condition.condition_type != VOUCHED);
        if self.members.is_empty() {
            return;
        }
        let named: Vec<String> = self.members.iter().take(MOST_NAMED).map(|name| format!("{name:?}")).collect();
        let more = self.members.len().saturating_sub(MOST_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let unbound: Vec<&str> = self.unbound.iter().map(String::as_str).collect();
        conditions.push(Condition {
            condition_type: VOUCHED.to_owned(),
            status: "False".to_owned(),
            reason: "TokenDoesNotBindSelector".to_owned(),
            message: format!(
                "Dataplanes {}{more} match the selector by what their tokens do not bind ({}); their identities are not \
                 accepted. Issue tokens that bind it, or write the Dataplanes as a user.",
                named.join(", "),
                unbound.join(", ")
            ),
        });
    }
}
