//! Condition of a MeshService that names members without a certificate, where the mesh refuses plain text.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_identity::ServerAccess;
use kodiak_model::Condition;
use kodiak_rollout::Rollout;
use kodiak_rules::Proxy;

use super::conditions;

/// Type of the condition, which exists only while there are such members.
const CERTIFIED: &str = "MembersHaveCertificates";

#[derive(Debug, Default)]
pub(super) struct Uncertified {
    members: BTreeSet<Arc<str>>,
}

impl Uncertified {
    /// Returns whether the proxy is no endpoint for this reason.
    pub(super) fn note(&mut self, rollout: &Rollout, proxy: &Proxy) -> bool {
        let closed = ServerAccess::of(rollout, proxy) == ServerAccess::Closed;
        if closed {
            self.members.insert(proxy.name.clone());
        }
        closed
    }

    pub(super) fn report(&self, conditions: &mut Vec<Condition>) {
        let problem = (!self.members.is_empty()).then(|| {
            let message = format!(
                "{} get no certificate from a MeshIdentity, and the mesh refuses plain text; they are not called. Add the \
                 labels that a MeshIdentity selects and uses, or enable an mTLS backend of the Mesh.",
                conditions::dataplanes(&self.members),
            );
            ("NoCertificate", message)
        });
        conditions::report(conditions, CERTIFIED, problem);
    }
}
