//! Effective permissions of one inbound, from all policies that select it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kodiak_model::Choice;
use kodiak_model::source_match::{Match, SpiffeIdMatchType};

use super::{Action, Conf, RuleConf};
use crate::{Entry, Source, caller_uris};

/// Callers that an inbound allows. None by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Permissions {
    pub(super) form: Form,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// By tags. The last item that matches a caller decides.
    From(Vec<Tagged>),
    /// By SPIFFE ID. Any denial decides.
    Rules(Rules),
}

impl Default for Form {
    fn default() -> Self {
        Self::From(Vec::new())
    }
}

/// Callers that have all of these tags, and the action for them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Tagged {
    pub(super) policy: Arc<str>,
    pub(super) tags: BTreeMap<String, String>,
    pub(super) action: Action,
}

/// The three lists of all policies, in ascending precedence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Rules {
    pub(super) deny: Vec<Identified>,
    pub(super) shadow: Vec<Identified>,
    pub(super) allow: Vec<Identified>,
}

/// Callers with this SPIFFE ID and SNI. A missing condition matches all callers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Identified {
    pub(super) policy: Arc<str>,
    pub(super) identity: Option<Identity>,
    pub(super) sni: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Identity {
    Exact(String),
    /// Whole segments of the path: the SPIFFE ID itself, and those below it.
    Prefix(String),
}

impl Permissions {
    /// Combines all entries of the inbound, in ascending precedence.
    ///
    /// SPIFFE IDs override tags: with one item of `rules`, every `from` is ignored.
    pub fn of(entries: &[Entry]) -> Self {
        let form = if entries.iter().any(|entry| matches!(entry.source, Source::Matches(_))) {
            Form::Rules(rules(entries))
        } else {
            Form::From(from(entries))
        };
        Self { form }
    }

    /// The permissions that apply to calls with this SNI.
    #[must_use]
    pub fn at(self: &Arc<Self>, sni: &str) -> Arc<Self> {
        let Form::Rules(Rules { deny, shadow, allow }) = &self.form else { return self.clone() };
        if !self.needs_sni() {
            return self.clone();
        }
        let asked = |one: &&Identified| one.sni.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(sni));
        let kept = |list: &[Identified]| {
            list.iter().filter(asked).map(|one| Identified { sni: None, ..one.clone() }).collect::<Vec<_>>()
        };
        let form = Form::Rules(Rules { deny: kept(deny), shadow: kept(shadow), allow: kept(allow) });
        Arc::new(Self { form })
    }

    /// The same without the names of policies: equal ones admit the same callers.
    #[must_use]
    pub fn anonymous(&self) -> Self {
        let mut anonymous = self.clone();
        let no_policy: Arc<str> = Arc::default();
        match &mut anonymous.form {
            Form::From(items) => items.iter_mut().for_each(|item| item.policy = no_policy.clone()),
            Form::Rules(Rules { deny, shadow, allow }) => {
                deny.iter_mut().chain(shadow).chain(allow).for_each(|item| item.policy = no_policy.clone());
            }
        }
        anonymous
    }
}

/// Drops items that cannot decide: those before the last one for all callers, and those that a later item for the same
/// callers overrides.
fn from(entries: &[Entry]) -> Vec<Tagged> {
    let mut seen = BTreeSet::new();
    let mut kept = Vec::new();
    for tagged in entries.iter().rev().filter_map(tagged) {
        let everybody = tagged.tags.is_empty();
        if seen.insert(tagged.tags.clone()) {
            kept.push(tagged);
        }
        if everybody {
            break;
        }
    }
    kept.reverse();
    kept
}

/// `None` for a target that no caller can be.
fn tagged(entry: &Entry) -> Option<Tagged> {
    let Source::From(target) = &entry.source else { return None };
    // A word that another version wrote must not widen access.
    let action = entry.conf.read::<Conf>().action?.known().unwrap_or(Action::Deny);
    let tagged = |tags| Tagged { policy: Arc::clone(&entry.policy), tags, action };
    if target.known_kind().is_none() {
        return (action == Action::Deny).then(|| tagged(BTreeMap::new()));
    }
    caller_uris::tags(target).map(tagged)
}

fn rules(entries: &[Entry]) -> Rules {
    let mut lists = Rules::default();
    for entry in entries.iter().filter(|entry| matches!(entry.source, Source::Matches(_))) {
        let RuleConf { deny, allow_with_shadow_deny, allow } = entry.conf.read();
        // What cannot be told apart is denied to everybody and allowed to nobody.
        lists.deny.extend(deny.iter().flatten().map(|one| match identified(&entry.policy, one) {
            Some(denied) => denied,
            None => Identified { policy: Arc::clone(&entry.policy), identity: None, sni: None },
        }));
        for (list, written) in [(&mut lists.shadow, allow_with_shadow_deny), (&mut lists.allow, allow)] {
            list.extend(written.iter().flatten().filter_map(|one| identified(&entry.policy, one)));
        }
    }
    let Rules { deny, shadow, allow } = &mut lists;
    [deny, shadow, allow].into_iter().for_each(keep_highest_precedence);
    lists
}

/// `None` for a type of match that another version wrote.
fn identified(policy: &Arc<str>, one: &Match) -> Option<Identified> {
    let identity = match &one.spiffe_id {
        None => None,
        Some(id) => {
            let value = id.value.clone().unwrap_or_default();
            match &id.match_type {
                None | Some(Choice::Known(SpiffeIdMatchType::Exact)) => Some(Identity::Exact(value)),
                Some(Choice::Known(SpiffeIdMatchType::Prefix)) => Some(Identity::Prefix(value)),
                Some(Choice::Unknown(_)) => return None,
            }
        }
    };
    let sni = one.sni.as_ref().map(|sni| sni.value.clone().unwrap_or_default());
    Some(Identified { policy: Arc::clone(policy), identity, sni })
}

/// Of equal items of several policies, keeps that of the policy with the highest precedence.
fn keep_highest_precedence(list: &mut Vec<Identified>) {
    let mut seen = BTreeSet::new();
    list.reverse();
    list.retain(|one| seen.insert((one.identity.clone(), one.sni.clone())));
    list.reverse();
}
