//! Callers that an inbound may admit, when nobody has called yet: the SNI of a connection is unknown.
//!
//! An unknown condition counts in the caller's favour, so the result contains every caller that Envoy would admit.

use kodiak_model::spiffe;

use super::permissions::{Form, Identified, Identity, Rules, Tagged};
use super::{Action, Permissions, Verdict};
use crate::caller_uris;

/// Algebra of sets of callers, identified by the URIs of their certificates.
pub trait Callers {
    type Set: Clone;

    fn nobody(&self) -> Self::Set;
    fn everybody(&self) -> Self::Set;
    /// Callers with this URI.
    fn with_uri(&self, uri: &str) -> Self::Set;
    /// Callers with a URI of this tag, of any value.
    fn with_tag(&self, uri_without_value: &str) -> Self::Set;
    /// Callers with a URI that starts with this text.
    fn with_prefix(&self, prefix: &str) -> Self::Set;
    fn union(&self, a: &Self::Set, b: &Self::Set) -> Self::Set;
    fn intersection(&self, a: &Self::Set, b: &Self::Set) -> Self::Set;
    fn difference(&self, a: &Self::Set, b: &Self::Set) -> Self::Set;
}

/// Condition on one URI of a caller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UriMatch {
    Exact(String),
    /// One more path segment after this text, of any value.
    AnyValue(String),
    Prefix(String),
}

impl Permissions {
    /// Set of the callers that [`possible`](Self::possible) admits. `mesh` is the mesh of the inbound.
    pub fn admitted<C: Callers>(&self, mesh: &str, callers: &C) -> C::Set {
        match &self.form {
            Form::From(items) => {
                let (mut admitted, mut decided) = (callers.nobody(), callers.nobody());
                for item in items.iter().rev() {
                    let matched = item.callers(mesh, callers);
                    if item.action != Action::Deny {
                        admitted = callers.union(&admitted, &callers.difference(&matched, &decided));
                    }
                    decided = callers.union(&decided, &matched);
                }
                admitted
            }
            Form::Rules(Rules { deny, shadow, allow }) => {
                let all = |items: &mut dyn Iterator<Item = &Identified>| {
                    items.fold(callers.nobody(), |all, item| callers.union(&all, &item.callers(callers)))
                };
                let denied = all(&mut deny.iter().filter(|item| item.sni.is_none()));
                callers.difference(&all(&mut shadow.iter().chain(allow)), &denied)
            }
        }
    }

    /// Verdict on a caller whose SNI is unknown.
    pub fn possible(&self, mesh: &str, uris: &[String]) -> Verdict<'_> {
        let caller = super::Caller { uris, sni: None };
        let Form::Rules(Rules { deny, shadow, allow }) = &self.form else { return self.verdict(mesh, &caller) };
        let denied = deny.iter().filter(|item| item.sni.is_none()).map(|item| (Action::Deny, item));
        let shadowed = shadow.iter().map(|item| (Action::AllowWithShadowDeny, item));
        let all = denied.rev().chain(shadowed.rev()).chain(allow.iter().map(|item| (Action::Allow, item)).rev());
        let decided = all.into_iter().find(|(_, item)| item.is_of(uris));
        let (action, policy) = decided.map_or((Action::Deny, None), |(action, item)| (action, Some(&*item.policy)));
        Verdict { action, policy }
    }

    /// Conditions on URIs that decide about callers. A caller that matches none of them gets the verdict of everybody.
    pub fn uri_matches(&self, mesh: &str) -> Vec<UriMatch> {
        match &self.form {
            Form::From(items) => items.iter().flat_map(|item| item.uri_matches(mesh)).collect(),
            Form::Rules(Rules { deny, shadow, allow }) => {
                let all = deny.iter().chain(shadow).chain(allow);
                let identities = all.filter_map(|item| item.identity.as_ref());
                identities
                    .flat_map(|identity| match identity {
                        Identity::Exact(value) => vec![UriMatch::Exact(value.clone())],
                        Identity::Prefix(value) => {
                            vec![UriMatch::Exact(value.clone()), UriMatch::Prefix(spiffe::below(value))]
                        }
                    })
                    .collect()
            }
        }
    }
}

impl Tagged {
    fn uri_matches(&self, mesh: &str) -> impl Iterator<Item = UriMatch> {
        self.tags.iter().map(move |(key, value)| match value.as_str() {
            "*" => UriMatch::AnyValue(caller_uris::of_tag(mesh, key, "")),
            value => UriMatch::Exact(caller_uris::of_tag(mesh, key, value)),
        })
    }

    fn callers<C: Callers>(&self, mesh: &str, callers: &C) -> C::Set {
        self.uri_matches(mesh).fold(callers.everybody(), |all, one| {
            let matched = match one {
                UriMatch::Exact(uri) => callers.with_uri(&uri),
                UriMatch::AnyValue(uri) => callers.with_tag(&uri),
                UriMatch::Prefix(prefix) => callers.with_prefix(&prefix),
            };
            callers.intersection(&all, &matched)
        })
    }
}

impl Identified {
    fn callers<C: Callers>(&self, callers: &C) -> C::Set {
        match &self.identity {
            None => callers.everybody(),
            Some(Identity::Exact(uri)) => callers.with_uri(uri),
            Some(Identity::Prefix(value)) => {
                callers.union(&callers.with_uri(value), &callers.with_prefix(&spiffe::below(value)))
            }
        }
    }
}
