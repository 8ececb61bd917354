//! Selects the faults of an inbound and their callers, from all policies that select the inbound.

use std::collections::BTreeMap;
use std::sync::Arc;

use kodiak_envoy::envoy::extensions::filters::http::fault::v3::HttpFault;
use kodiak_model::Choice;
use kodiak_model::source_match::{Match, SpiffeIdMatchType};

use super::Conf;
use super::faults::http_fault;
use crate::{Entry, Source, caller_uris};

/// Faults of one item, and the callers that get them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Injection {
    /// KRI of the policy for an item of `rules`. `None` for an item of `from`.
    pub(super) policy: Option<Arc<str>>,
    /// One for each fault of the item, and never empty.
    pub(super) faults: Vec<HttpFault>,
    /// A caller in any of these sets; all callers when there are none.
    pub(super) only: Vec<Callers>,
    /// Callers to which an item of higher precedence applies instead.
    pub(super) except: Vec<Callers>,
}

/// Callers that fulfil all of these conditions.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Callers(pub(super) Vec<Condition>);

/// Condition on the connection of a caller, for which it needs mutual TLS.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Condition {
    /// Regular expression for the joined URIs of its certificate.
    Uris(String),
    Sni(String),
}

/// `rules` override `from`: with one item of `rules`, every `from` is ignored.
pub(super) fn of(entries: &[Entry], mesh: &str) -> Vec<Injection> {
    if entries.iter().any(|entry| matches!(entry.source, Source::Matches(_))) {
        by_rules(entries)
    } else {
        by_tags(entries, mesh)
    }
}

/// Every rule applies on its own. Of several for the same callers only the one of the highest precedence applies, so an
/// empty list removes the faults of the others. Those for all callers come last.
fn by_rules(entries: &[Entry]) -> Vec<Injection> {
    let mut decided: Vec<Vec<Condition>> = Vec::new();
    let mut injections = Vec::new();
    for entry in entries.iter().rev() {
        let (Source::Matches(matches), Some(faults)) = (&entry.source, faults(entry)) else { continue };
        let mut callers: Vec<Vec<Condition>> = match matches.as_slice() {
            [] => vec![Vec::new()],
            matches => matches.iter().filter_map(conditions).collect(),
        };
        callers.retain(|one| !decided.contains(one));
        decided.extend(callers.iter().cloned());
        if callers.is_empty() || faults.is_empty() {
            continue;
        }
        let is_for_all = callers.iter().any(Vec::is_empty);
        let only = if is_for_all { Vec::new() } else { callers.into_iter().map(Callers).collect() };
        injections.push(Injection { policy: Some(Arc::clone(&entry.policy)), faults, only, except: Vec::new() });
    }
    injections.sort_by_key(|injection| injection.only.is_empty());
    injections
}

/// The item of the highest precedence that matches a caller applies to it, and no other.
fn by_tags(entries: &[Entry], mesh: &str) -> Vec<Injection> {
    let mut decided: Vec<BTreeMap<String, String>> = Vec::new();
    let mut injections = Vec::new();
    for entry in entries.iter().rev() {
        let (Source::From(target), Some(faults)) = (&entry.source, faults(entry)) else { continue };
        let Some(tags) = caller_uris::tags(target) else { continue };
        let includes = |other: &BTreeMap<String, String>| other.iter().all(|(key, value)| tags.get(key) == Some(value));
        if decided.iter().any(includes) {
            continue;
        }
        if !faults.is_empty() {
            let except = decided.iter().map(|tags| with_tags(tags, mesh)).collect();
            let only = if tags.is_empty() { Vec::new() } else { vec![with_tags(&tags, mesh)] };
            injections.push(Injection { policy: None, faults, only, except });
        }
        decided.push(tags);
    }
    injections
}

/// `None` when the conf has no list of faults: it overrides nothing.
fn faults(entry: &Entry) -> Option<Vec<HttpFault>> {
    Some(entry.conf.read::<Conf>().http?.iter().filter_map(http_fault).collect())
}

/// Empty for all callers. `None` for a type of match that another version wrote: it matches nobody.
fn conditions(Match { spiffe_id, sni }: &Match) -> Option<Vec<Condition>> {
    let mut conditions = Vec::new();
    if let Some(id) = spiffe_id {
        let value = id.value.as_deref().unwrap_or_default();
        conditions.push(Condition::Uris(match &id.match_type {
            None | Some(Choice::Known(SpiffeIdMatchType::Exact)) => caller_uris::exact(value),
            Some(Choice::Known(SpiffeIdMatchType::Prefix)) => caller_uris::prefix(value),
            Some(Choice::Unknown(_)) => return None,
        }));
    }
    conditions.extend(sni.iter().map(|sni| Condition::Sni(sni.value.clone().unwrap_or_default())));
    Some(conditions)
}

fn with_tags(tags: &BTreeMap<String, String>, mesh: &str) -> Callers {
    Callers(tags.iter().map(|(key, value)| Condition::Uris(caller_uris::tag(mesh, key, value))).collect())
}
