//! Deviations about names and sections of destinations.

use std::sync::Arc;

use kodiak_model::{
    LegacyNames, TargetKind, TargetRef,
    policy::{Body, Item},
    tags,
};
use kodiak_rules::Policy;
use serde_json::{Value, json};

/// [`super::LEGACY_NAMES`] and [`super::SECTIONS`], in expected rules for destinations.
pub(crate) fn with_seeds_about_names(expected: &mut Value, policies: &[Arc<Policy>]) {
    if let Some(Value::Array(rules)) = expected.get_mut("Rules") {
        rules.retain(|rule| !is_only_of_sections(rule, policies));
    }
    let by_kri = if expected.get("ResourceRules").is_some() { &mut expected["ResourceRules"] } else { expected };
    if let Some(by_kri) = by_kri.as_object_mut() {
        by_kri.retain(|_, rule| reduce_to_legacy_names(rule, policies));
    }
}

/// A rule for a `kuma.io/service` that all items reference together with a section.
fn is_only_of_sections(rule: &Value, policies: &[Arc<Policy>]) -> bool {
    let mut tags = rule["Subset"].as_array().into_iter().flatten();
    let Some(service) = tags.find(|tag| tag["Key"] == tags::SERVICE && tag["Not"] == false) else {
        return false;
    };
    let named = |item: &&Item| {
        item.target.known_kind() == Some(TargetKind::MeshService)
            && service["Value"] == *item.target.name.as_deref().unwrap_or_default()
    };
    let mut named = policies.iter().flat_map(|policy| &policy.body.to).filter(named).peekable();
    named.peek().is_some() && named.all(|item| has_section(&item.target))
}

/// Reduces a rule to the part that applies to a destination by its legacy name; `false` when no part does. A rule that
/// is merged with others is left unchanged, since the parts cannot be separated here.
fn reduce_to_legacy_names(rule: &mut Value, policies: &[Arc<Policy>]) -> bool {
    let of = |origin: &Value| {
        let name = origin["Resource"].get("name").or(origin["Resource"].get("Name"))?.as_str()?;
        let policy = policies.iter().find(|policy| *policy.name == *name)?;
        let index = usize::try_from(origin["RuleIndex"].as_u64()?).ok()?;
        Some((policy, policy.body.to.get(index)?))
    };
    let origins = rule["Origin"].as_array().into_iter().flatten();
    let origins: Vec<(&Arc<Policy>, &Item)> = origins.filter_map(of).collect();
    let own = origins.iter().filter(|(_, item)| item.target.known_kind() != Some(TargetKind::Mesh));
    let own_count = own.clone().count();
    if own_count == 0 || !own.clone().all(|(_, item)| is_legacy_name(&item.target)) {
        return true;
    }
    match origins.first().map_or(LegacyNames::All, |(policy, _)| policy.kind.legacy_names) {
        LegacyNames::All => true,
        LegacyNames::Nothing => false,
        LegacyNames::Only(_) if own_count < origins.len() => true,
        LegacyNames::Only(path) => {
            let pointer = format!("/Conf/0/{}", path.join("/"));
            let Some(part) = rule.pointer(&pointer).cloned() else { return false };
            rule["Conf"] = json!([path.iter().rev().fold(part, |inner, field| json!({ *field: inner }))]);
            true
        }
    }
}

fn is_legacy_name(target: &TargetRef) -> bool {
    let parts = target.name.as_deref().unwrap_or_default().split('_').count();
    target.known_kind() == Some(TargetKind::MeshService) && !has_section(target) && (parts == 3 || parts == 4)
}

fn has_section(target: &TargetRef) -> bool {
    target.section_name.as_deref().is_some_and(|section| !section.is_empty())
}

/// [`super::SECTIONS`], in the expected response of `_rules`.
pub(crate) fn with_sections_in_rules(expected: &mut Value, policies: &[Body]) {
    for of_kind in expected.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(Value::Array(rules)) = of_kind.get_mut("toRules") {
            rules.retain(|rule| !is_shown_for_sections(rule, policies));
        }
    }
}

/// A rule for a `kuma.io/service` that all items reference together with a section.
fn is_shown_for_sections(rule: &Value, policies: &[Body]) -> bool {
    let mut matchers = rule["matchers"].as_array().into_iter().flatten();
    let Some(service) = matchers.find(|tag| tag["key"] == tags::SERVICE && tag["not"] == false) else { return false };
    let targets = policies.iter().flat_map(|policy| &policy.to).map(|item| &item.target);
    let mut named = targets.filter(|target| service["value"] == *target.name.as_deref().unwrap_or_default()).peekable();
    named.peek().is_some() && named.all(|target| target.section_name.as_deref().is_some_and(|name| !name.is_empty()))
}

#[cfg(test)]
mod tests {
    use kodiak_kinds::kinds;
    use kodiak_model::policy::Body;

    use super::*;

    fn policy(kind: &str, targets: &[Value]) -> Arc<Policy> {
        let kind = kinds().by_name(kind).unwrap();
        let to: Vec<Value> = targets.iter().map(|target| json!({ "targetRef": target, "default": {} })).collect();
        let body = Body::read(&kind.policy.unwrap(), &json!({ "to": to })).unwrap();
        Arc::new(Policy { kind, mesh: "default".into(), name: "p".into(), labels: Arc::default(), body })
    }

    #[test]
    fn service_referenced_only_with_sections_has_no_rule_by_tag() {
        let plain = json!({ "kind": "MeshService", "name": "a" });
        let section = |name: &str| json!({ "kind": "MeshService", "name": name, "sectionName": "http" });
        let rule = |name: &str| json!({ "Subset": [{ "Key": "kuma.io/service", "Value": name, "Not": false }] });
        let mut expected = json!({ "Rules": [rule("a"), rule("b"), { "Subset": [] }] });
        with_seeds_about_names(&mut expected, &[policy("MeshTimeout", &[plain, section("a"), section("b")])]);
        assert_eq!(expected, json!({ "Rules": [rule("a"), { "Subset": [] }] }));
    }

    #[test]
    fn part_that_applies_by_legacy_name_depends_on_the_kind() {
        let targets =
            [json!({ "kind": "MeshService", "name": "a_b_svc_80" }), json!({ "kind": "MeshService", "name": "a" })];
        let rule = |index: usize, conf: &Value| json!({ "Conf": [conf], "Origin": [{ "Resource": { "name": "p" }, "RuleIndex": index }] });
        let conf = json!({ "localityAwareness": { "localZone": {}, "crossZone": {} }, "x": 1 });
        let local = json!({ "localityAwareness": { "localZone": {} } });
        for (kind, expected) in [
            ("MeshTimeout", json!({ "old": rule(0, &conf), "real": rule(1, &conf) })),
            ("MeshTCPRoute", json!({ "real": rule(1, &conf) })),
            ("MeshLoadBalancingStrategy", json!({ "old": rule(0, &local), "real": rule(1, &conf) })),
        ] {
            let mut found = json!({ "ResourceRules": { "old": rule(0, &conf), "real": rule(1, &conf) } });
            with_seeds_about_names(&mut found, &[policy(kind, &targets)]);
            assert_eq!(found["ResourceRules"], expected, "{kind}");
        }
    }
}
