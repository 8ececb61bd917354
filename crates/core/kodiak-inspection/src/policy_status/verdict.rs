//! Status of a policy, from the results of its parts.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_rules::Policy;

use super::{
    PolicyStatusContext, Reason, Why,
    callers::{self, CallersWithoutTags},
    followed::{self, Outcome},
    groups::{Group, Groups},
    presented::Presented,
    references, selected,
};

/// Result of a part, over all proxies.
struct Part {
    path: &'static str,
    followed: bool,
    overridden_by: BTreeSet<String>,
}

/// Number of proxies on which it is in force, and reasons where it or parts of it are not.
pub(super) fn of(
    policy: &Arc<Policy>,
    groups: &Groups,
    (without_tags, presented): (&CallersWithoutTags, &Presented),
    context: PolicyStatusContext<'_>,
) -> (usize, Vec<Reason>) {
    if policy.meta().is_shadow() {
        let text = "it has the label kuma.io/effect: shadow, so it is a dry run";
        return (0, vec![Reason::new(Why::Shadow, text)]);
    }
    let (mut parts, mut ignored_by, mut troubles): (Vec<Part>, BTreeSet<String>, BTreeSet<String>) = <_>::default();
    let (mut selected, mut followed, mut overridden, mut stronger_ones) = (0, 0, 0, BTreeSet::new());
    let (needs_mtls, mut in_plain_text) = (kodiak_policies::needs_mtls(policy.kind), 0);
    let (needs_redirection, mut not_redirected) = (kodiak_policies::needs_transparent_proxying(policy.kind), 0);
    let callers_decide = needs_mtls || callers::decide(policy);
    for (group, stronger) in groups.about(policy) {
        selected += group.proxies;
        in_plain_text += group.in_plain_text;
        let unenforced = match (callers_decide, needs_redirection) {
            (true, _) => group.in_plain_text,
            (false, true) => group.not_redirected,
            (false, false) => 0,
        };
        not_redirected += if needs_redirection { group.not_redirected } else { 0 };
        let outcomes = outcomes(policy, group, stronger, context);
        if outcomes.iter().any(|(_, outcome)| outcome.followed) {
            followed += group.proxies - unenforced;
        } else if outcomes.iter().any(|(_, outcome)| !outcome.overridden_by.is_empty()) {
            overridden += group.proxies;
            stronger_ones.extend(outcomes.iter().flat_map(|(_, outcome)| outcome.overridden_by.iter().cloned()));
        }
        for (path, outcome) in outcomes {
            ignored_by.extend(outcome.ignored_by);
            troubles.extend(outcome.trouble);
            match parts.iter_mut().find(|part| part.path == path) {
                Some(part) => {
                    part.followed |= outcome.followed;
                    part.overridden_by.extend(outcome.overridden_by);
                }
                None => {
                    parts.push(Part { path, followed: outcome.followed, overridden_by: outcome.overridden_by });
                }
            }
        }
    }
    if selected == 0 {
        let mut reasons = vec![selected::none(policy, context)];
        reasons.extend(references::find(policy, context));
        return (0, reasons);
    }
    let mut reasons = Vec::new();
    if needs_mtls {
        reasons.extend((in_plain_text > 0).then(|| callers::unknown(in_plain_text, selected)));
    } else {
        reasons.extend(callers::ignored_in_plain_text(policy, in_plain_text, selected));
    }
    if not_redirected > 0 {
        reasons.push(selected::not_redirected(not_redirected, selected));
    }
    let matches_tags = parts.iter().any(|part| part.path == "spec.from" && part.followed);
    if overridden > 0 {
        let place = if followed == 0 { String::new() } else { format!("on {overridden} of {selected} proxies, ") };
        let text = format!("{place}policies of higher precedence override it");
        reasons.push(Reason::new(Why::Overridden, text).by(stronger_ones));
    }
    for part in parts.into_iter().filter(|part| followed > 0 && !part.followed && !part.overridden_by.is_empty()) {
        let text = "policies of higher precedence override it";
        reasons.push(Reason::new(Why::Overridden, text).at(part.path).by(part.overridden_by));
    }
    if !ignored_by.is_empty() {
        let text = "`from` is ignored at inbounds where a policy has `rules`; use `rules`";
        reasons.push(Reason::new(Why::Ignored, text).at("spec.from").by(ignored_by));
    }
    if matches_tags {
        reasons.extend(without_tags.reasons(policy));
    }
    if followed > 0 {
        reasons.extend(presented.reasons(policy, context));
    }
    reasons.extend(troubles.into_iter().map(|text| Reason::new(Why::TooMany, text).at("spec.to")));
    reasons.extend(references::find(policy, context));
    if followed == 0 && reasons.is_empty() {
        reasons.push(selected::unused(policy));
    }
    (followed, reasons)
}

/// Result of each part at the proxies of a group.
fn outcomes(
    policy: &Arc<Policy>,
    group: &Group,
    stronger: &[Arc<Policy>],
    context: PolicyStatusContext<'_>,
) -> Vec<(&'static str, Outcome)> {
    let body = &policy.body;
    let from_as_rules = policy.kind.policy.is_some_and(|facts| facts.from_as_rules);
    let mut outcomes = Vec::new();
    if !body.to.is_empty() {
        outcomes.push(("spec.to", followed::to(policy, group, stronger, context)));
    }
    if !body.rules.is_empty() {
        outcomes.push(("spec.rules", followed::rules(policy, group)));
    }
    match (body.from.is_empty(), from_as_rules, body.rules.is_empty()) {
        (true, ..) => (),
        (false, true, true) => outcomes.push(("spec.from", followed::rules(policy, group))),
        (false, true, false) => {
            let itself = BTreeSet::from([policy.kri().to_string()]);
            outcomes.push(("spec.from", Outcome { ignored_by: itself, ..Outcome::default() }));
        }
        (false, false, _) => outcomes.push(("spec.from", followed::from(policy, group))),
    }
    if body.default.is_some() {
        outcomes.push(("spec.default", followed::default(policy, stronger)));
    }
    outcomes
}
