//! Condition of a MeshService that names members whose token does not bind the selected fields.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_model::{
    Condition,
    kinds::{dataplane::Admission, mesh_service::Selector},
};
use kodiak_rules::Proxy;

use super::conditions;

/// Type of the condition, which exists only while there are such members.
const VOUCHED: &str = "MembersVouchedFor";

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
        let unbound: Vec<&str> = self.unbound.iter().map(String::as_str).collect();
        let problem = (!self.members.is_empty()).then(|| {
            let message = format!(
                "{} match the selector by what their tokens do not bind ({}); their identities are not accepted. Issue \
                 tokens that bind it, or write the Dataplanes as a user.",
                conditions::dataplanes(&self.members),
                unbound.join(", ")
            );
            ("TokenDoesNotBindSelector", message)
        });
        conditions::report(conditions, VOUCHED, problem);
    }
}
