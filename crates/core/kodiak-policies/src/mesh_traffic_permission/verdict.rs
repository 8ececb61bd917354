//! Verdict on a request. The generated RBAC filters implement exactly this.

use std::sync::Arc;

use kodiak_model::spiffe;

use super::permissions::{Form, Identified, Identity, Rules, Tagged};
use super::{Action, Caller, Permissions};

/// Action, and the KRI of the policy that decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict<'a> {
    pub action: Action,
    /// `None`: no policy matches this caller, so it is denied.
    pub policy: Option<&'a str>,
}

impl Permissions {
    /// `mesh` is the mesh of the inbound, which is part of the URIs in certificates.
    pub fn verdict(&self, mesh: &str, caller: &Caller<'_>) -> Verdict<'_> {
        let decided = match &self.form {
            Form::From(items) => {
                items.iter().rfind(|item| item.takes(mesh, caller)).map(|item| (item.action, &item.policy))
            }
            Form::Rules(rules) => rules.decide(caller),
        };
        match decided {
            Some((action, policy)) => Verdict { action, policy: Some(policy) },
            None => Verdict { action: Action::Deny, policy: None },
        }
    }
}

impl Tagged {
    fn takes(&self, mesh: &str, caller: &Caller<'_>) -> bool {
        self.tags.iter().all(|(key, value)| caller.has_tag(mesh, key, value))
    }
}

impl Rules {
    fn decide(&self, caller: &Caller<'_>) -> Option<(Action, &Arc<str>)> {
        let lists =
            [(Action::Deny, &self.deny), (Action::AllowWithShadowDeny, &self.shadow), (Action::Allow, &self.allow)];
        lists
            .into_iter()
            .find_map(|(action, list)| list.iter().rfind(|one| one.takes(caller)).map(|one| (action, &one.policy)))
    }
}

impl Identified {
    fn takes(&self, caller: &Caller<'_>) -> bool {
        let asks = |sni: &String| caller.sni.is_some_and(|asked| asked.eq_ignore_ascii_case(sni));
        self.is_of(caller.uris) && self.sni.as_ref().is_none_or(asks)
    }

    /// Whether the identity matches, at any SNI.
    pub(super) fn is_of(&self, uris: &[String]) -> bool {
        match &self.identity {
            None => true,
            Some(Identity::Exact(value)) => uris.contains(value),
            Some(Identity::Prefix(value)) => uris.iter().any(|uri| spiffe::has_prefix(uri, value)),
        }
    }
}
