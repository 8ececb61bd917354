//! Whether anything would be different without a policy.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_rules::{Matched, Policy, Shadow, inbound, outbound, precedence, subset};

use super::{Context, Reason, Why, has_conditions};

pub(super) struct Found {
    /// The proxies for which it makes a difference.
    pub(super) followed: usize,
    pub(super) reasons: Vec<Reason>,
}

/// Proxies that the same policies are about are looked at once.
pub(super) fn find(policy: &Arc<Policy>, proxies: &BTreeSet<Arc<str>>, context: Context<'_>) -> Found {
    let mut alike: Vec<(Arc<Matched>, usize)> = Vec::new();
    for proxy in proxies {
        let matched = context.book.matched(policy.kind.name, proxy, Shadow::Ignored);
        match alike.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &matched)) {
            Some((_, count)) => *count += 1,
            None => alike.push((matched, 1)),
        }
    }
    let (mut followed, mut stronger, mut ignored) = (0, BTreeSet::new(), BTreeSet::new());
    for (matched, count) in &alike {
        let ruled_out = ruled_out(policy, matched);
        if !ruled_out.is_empty() {
            ignored.extend(ruled_out.iter().map(|other| other.kri().to_string()));
        } else if matters(policy, matched, context) {
            followed += count;
        } else {
            let winners = matched.proxy.iter().filter(|other| precedence(policy, other).is_lt());
            stronger.extend(winners.map(|other| other.kri().to_string()));
        }
    }
    let mut reasons = Vec::new();
    if followed == 0 && !stronger.is_empty() {
        let message = "stronger policies say something else wherever it says something".to_owned();
        reasons.push(Reason { reason: Why::Overridden, message, path: None, policies: stronger.into_iter().collect() });
    }
    if !ignored.is_empty() {
        let message = "its `from` does not count at inbounds where another policy has `rules`".to_owned();
        let path = (followed > 0).then(|| "spec.from".to_owned());
        reasons.push(Reason { reason: Why::Ignored, message, path, policies: ignored.into_iter().collect() });
    }
    Found { followed, reasons }
}

/// The policies that make its `from` void: one with `rules` does at each inbound that both are about.
fn ruled_out<'a>(policy: &Arc<Policy>, matched: &'a Matched) -> Vec<&'a Arc<Policy>> {
    let facts = policy.kind.policy.as_ref();
    if policy.body.from.is_empty() || facts.is_some_and(|facts| facts.from_as_rules) {
        return Vec::new();
    }
    let at = matched.inbounds.values().filter(|policies| policies.contains(policy));
    let rulers = at.map(|policies| policies.iter().find(|other| !other.body.rules.is_empty()));
    rulers.collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// What is merged, with it and without it.
fn matters(policy: &Arc<Policy>, matched: &Matched, context: Context<'_>) -> bool {
    let body = &policy.body;
    // Rules that are not merged each stand for themselves.
    let merged = policy.kind.policy.as_ref().is_some_and(|facts| facts.from_as_rules);
    if body.rules.iter().any(|rule| !merged || has_conditions(&rule.matches)) {
        return true;
    }
    let without = |policies: &[Arc<Policy>]| -> Vec<Arc<Policy>> {
        policies.iter().filter(|other| other != &policy).cloned().collect()
    };
    let (with, others) = (&matched.proxy, without(&matched.proxy));
    let confs = |rules: Result<Vec<subset::Rule>, subset::Trouble>| {
        rules.map(|rules| rules.into_iter().map(|rule| (rule.subset, rule.conf)).collect::<Vec<_>>()).ok()
    };
    let calls = !body.to.is_empty()
        && (confs(subset::to(with, context.resources)) != confs(subset::to(&others, context.resources))
            || of_resources(with, context) != of_resources(&others, context));
    let whole = body.default.is_some()
        && subset::single(with).map(|rule| rule.conf) != subset::single(&others).map(|rule| rule.conf);
    let inbounds = matched.inbounds.values().chain(matched.listeners.values());
    let received = inbounds.filter(|policies| policies.contains(policy)).any(|policies| {
        let others = without(policies);
        // Its own `rules`, where any say something, are told apart by what they say.
        let by_rules =
            inbound::for_everybody(&inbound::rules(policies)) != inbound::for_everybody(&inbound::rules(&others));
        by_rules || (!body.from.is_empty() && confs(subset::from(policies)) != confs(subset::from(&others)))
    });
    calls || whole || received
}

fn of_resources(policies: &[Arc<Policy>], context: Context<'_>) -> Vec<(String, Vec<kodiak_model::policy::Conf>)> {
    let rules = outbound::rules(policies, context.resources);
    rules.into_iter().map(|(kri, rule)| (kri.to_string(), rule.confs)).collect()
}
