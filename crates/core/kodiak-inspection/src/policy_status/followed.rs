//! Parts of a policy that take effect on the proxies of a group, and the policies that override the rest.
//!
//! A part is overridden when policies of higher precedence, with the same or a broader target, merge to the same
//! configuration without it. So removing it would make no difference; of two equal policies the one of higher
//! precedence is in force.

use std::{collections::BTreeSet, slice, sync::Arc};

use kodiak_model::{
    TargetKind, TargetRef,
    policy::{Body, Conf, Item},
    tags::SERVICE,
};
use kodiak_rules::{
    Policy, inbound,
    outbound::{Asked, NameResolution},
    route_hash,
    subset::{self, ROUTE_HASH, Rule, RuleError},
};
use serde_json::Value;

use super::{PolicyStatusContext, groups::Group, references};

/// Result of one of the lists of a policy.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) followed: bool,
    /// KRIs of the policies that override it.
    pub(super) overridden_by: BTreeSet<String>,
    /// KRIs of the policies that disable it.
    pub(super) ignored_by: BTreeSet<String>,
    pub(super) trouble: Option<String>,
}

type Tags<'a> = Vec<(&'a str, &'a str)>;

impl Outcome {
    /// Whether a policy takes effect below these of higher precedence. `differs` compares the merged configuration with
    /// and without it.
    fn look(
        &mut self,
        policy: &Arc<Policy>,
        stronger: &[Arc<Policy>],
        differs: impl Fn(&[Arc<Policy>], &[Arc<Policy>]) -> bool,
    ) {
        // Most often the strongest one decides. What some of them override, more of them do.
        let mut count = 0;
        loop {
            let others = &stronger[stronger.len() - count..];
            if !differs(&[slice::from_ref(policy), others].concat(), others) {
                self.overridden_by.extend(others.iter().map(|other| other.kri().to_string()));
                return;
            }
            if count == stronger.len() {
                self.followed = true;
                return;
            }
            count = (count * 2).clamp(1, stronger.len());
        }
    }
}

/// `to`: for destinations by their tags, and for those that are resources.
pub(super) fn to(
    policy: &Arc<Policy>,
    group: &Group,
    stronger: &[Arc<Policy>],
    context: PolicyStatusContext<'_>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let there = policy.body.to.iter().enumerate();
    let there: Vec<usize> =
        there.filter(|(_, item)| references::is_there(item, policy, context)).map(|(n, _)| n).collect();
    if context.resolution == NameResolution::Both {
        to_tags(policy, group, stronger, context, &mut outcome);
    }
    for n in there {
        to_resources(policy, n, group, context, &mut outcome);
    }
    outcome
}

fn to_tags(
    policy: &Arc<Policy>,
    group: &Group,
    stronger: &[Arc<Policy>],
    context: PolicyStatusContext<'_>,
    outcome: &mut Outcome,
) {
    if let Some(trouble) = group.trouble(context.resources) {
        outcome.trouble = Some(trouble.to_owned());
        return;
    }
    let targets = policy.body.to.iter().map(|item| &item.target);
    let called = targets.filter(|target| is_for_route(policy) || references::is_called(target, context));
    for tags in called.flat_map(|target| destinations(policy, target, context)) {
        let tags: Tags<'_> = tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let about = |other: &&Arc<Policy>| is_for_route(other) || covers(&other.body.to, &tags);
        let stronger: Vec<Arc<Policy>> = stronger.iter().filter(about).cloned().collect();
        let said = |policies: &[Arc<Policy>]| confs(subset::for_destination(policies, context.resources, &tags));
        outcome.look(policy, &stronger, |with, without| said(with) != said(without));
    }
}

/// The order of items is another one here than that of their policies.
fn to_resources(
    policy: &Arc<Policy>,
    index: usize,
    group: &Group,
    context: PolicyStatusContext<'_>,
    outcome: &mut Outcome,
) {
    let own = alone(policy, index);
    for meant in Asked::new(slice::from_ref(&own), context.resolution).rules(context.resources).into_values() {
        let heard = group.asked(context.resolution).about(&meant.resource, &meant.section);
        let heard = heard.map_or_else(Vec::new, |rule| rule.origins);
        let place = heard.iter().position(|entry| entry.index == index && entry.policy.name == policy.name);
        let Some(place) = place else { continue };
        let stronger = heard[place + 1..].iter().filter(|entry| entry.policy.name != policy.name);
        let stronger: Vec<Arc<Policy>> = stronger.map(|entry| alone(&entry.policy, entry.index)).collect();
        let said = |policies: &[Arc<Policy>]| {
            let about = Asked::new(policies, context.resolution).about(&meant.resource, &meant.section);
            about.map(|rule| rule.confs)
        };
        outcome.look(&own, &stronger, |with, without| said(with) != said(without));
    }
}

/// `from`, where items count for callers by their tags.
pub(super) fn from(policy: &Arc<Policy>, group: &Group) -> Outcome {
    let mut outcome = Outcome::default();
    for (all, stronger) in group.places(policy) {
        let rulers: BTreeSet<String> =
            all.iter().filter(|other| !other.body.rules.is_empty()).map(|other| other.kri().to_string()).collect();
        if !rulers.is_empty() {
            outcome.ignored_by.extend(rulers);
            continue;
        }
        for tags in policy.body.from.iter().filter_map(|item| tags_of(&item.target)) {
            let stronger: Vec<Arc<Policy>> =
                stronger.iter().filter(|other| covers(&other.body.from, &tags)).cloned().collect();
            let said =
                |policies: &[Arc<Policy>]| subset::for_caller(policies, &tags).ok().flatten().map(|rule| rule.conf);
            outcome.look(policy, &stronger, |with, without| said(with) != said(without));
        }
    }
    outcome
}

/// `rules`, and `from` where items of it are rules for everybody.
pub(super) fn rules(policy: &Arc<Policy>, group: &Group) -> Outcome {
    // Rules that are not merged apply on their own.
    let by_itself =
        !kodiak_policies::merges_rules(policy.kind) || policy.body.rules.iter().any(|rule| !rule.matches.is_empty());
    let mut outcome = Outcome::default();
    for (_, stronger) in group.places(policy) {
        if by_itself {
            outcome.followed = true;
            break;
        }
        let stronger: Vec<Arc<Policy>> = stronger.iter().filter(|other| is_for_everybody(other)).cloned().collect();
        let said = |policies: &[Arc<Policy>]| inbound::for_everybody(&inbound::rules(policies));
        outcome.look(policy, &stronger, |with, without| said(with) != said(without));
    }
    outcome
}

/// `default`: for the proxy as a whole.
pub(super) fn default(policy: &Arc<Policy>, stronger: &[Arc<Policy>]) -> Outcome {
    let mut outcome = Outcome::default();
    let said = |policies: &[Arc<Policy>]| subset::single(policies).map(|rule| rule.conf);
    outcome.look(policy, stronger, |with, without| said(with) != said(without));
    outcome
}

/// Policy with one item of `to` only.
fn alone(policy: &Arc<Policy>, index: usize) -> Arc<Policy> {
    if policy.body.to.len() == 1 {
        return policy.clone();
    }
    let body = Body { target: policy.body.target.clone(), to: vec![policy.body.to[index].clone()], ..Body::default() };
    Arc::new(Policy { body, ..Policy::clone(policy) })
}

fn confs(rules: Result<Vec<Rule>, RuleError>) -> Option<Vec<Conf>> {
    rules.ok().map(|rules| rules.into_iter().map(|rule| rule.conf).collect())
}

fn is_for_everybody(policy: &Policy) -> bool {
    let Body { from, rules, .. } = &policy.body;
    let from_as_rules = policy.kind.policy.is_some_and(|facts| facts.from_as_rules);
    rules.iter().any(|rule| rule.matches.is_empty()) || (from_as_rules && rules.is_empty() && !from.is_empty())
}

pub(super) fn is_for_route(policy: &Policy) -> bool {
    policy.body.target.as_ref().and_then(TargetRef::known_kind) == Some(TargetKind::MeshHTTPRoute)
}

/// The tags by which an item of `to` means destinations; what is for a route, is for each of its rules.
fn destinations<'a>(
    policy: &'a Policy,
    target: &'a TargetRef,
    context: PolicyStatusContext<'a>,
) -> Vec<Vec<(String, String)>> {
    let owned = |tags: Tags<'_>| tags.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    if !is_for_route(policy) {
        return tags_of(target).map(owned).into_iter().collect();
    }
    let name = policy.body.target.as_ref().and_then(|target| target.name.as_deref()).unwrap_or_default();
    let mut all = Vec::new();
    for item in context.resources.route(&policy.mesh, name).into_iter().flat_map(|route| &route.body.to) {
        let rules = item.conf.json().get("rules").and_then(Value::as_array).into_iter().flatten();
        for matches in rules.filter_map(|rule| rule.get("matches")) {
            let mut tags: Vec<(String, String)> = tags_of(&item.target).map(owned).unwrap_or_default();
            tags.push((ROUTE_HASH.to_owned(), route_hash(matches)));
            all.push(tags);
        }
    }
    all
}

/// `None` for what is not meant by tags.
pub(super) fn tags_of(target: &TargetRef) -> Option<Tags<'_>> {
    let named = || target.name.as_deref().filter(|name| !name.is_empty()).map(|name| (SERVICE, name));
    let tags = || target.tags.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    match target.known_kind()? {
        TargetKind::Mesh => Some(Vec::new()),
        TargetKind::MeshSubset => Some(tags().collect()),
        TargetKind::MeshService if target.has_section() => None,
        TargetKind::MeshService => Some(vec![named()?]),
        TargetKind::MeshServiceSubset => Some(tags().chain([named()?]).collect()),
        TargetKind::MeshGateway
        | TargetKind::MeshExternalService
        | TargetKind::MeshMultiZoneService
        | TargetKind::MeshHTTPRoute
        | TargetKind::Dataplane => None,
    }
}

/// Whether any of the items is about everything that has these tags.
fn covers(items: &[Item], tags: &[(&str, &str)]) -> bool {
    let has_all = |wanted: Tags<'_>| wanted.iter().all(|tag| tags.contains(tag));
    items.iter().any(|item| tags_of(&item.target).is_some_and(has_all))
}
