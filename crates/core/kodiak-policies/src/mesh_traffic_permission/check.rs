//! Validation of MeshTrafficPermission.

use kodiak_model::{FieldPath, Problems, TargetKind, TargetRules};

use super::{Conf, MeshTrafficPermission, Rule, RuleConf};
use crate::{from_to, top_level};

const FROM: &[TargetKind] =
    &[TargetKind::Mesh, TargetKind::MeshSubset, TargetKind::MeshService, TargetKind::MeshServiceSubset];

pub(super) fn check(spec: &MeshTrafficPermission, problems: &mut Problems) {
    let at = FieldPath::SPEC;
    let MeshTrafficPermission { target_ref, from, rules } = spec;
    let (has_from, has_rules) = (from_to::is_used(from.as_ref()), from_to::is_used(rules.as_ref()));
    if let Some(target) = target_ref {
        let inbounds = has_from || has_rules;
        let rules = TargetRules { kinds: top_level::PROXIES, gateway_tags: false, inbounds };
        target.check(rules, &at.field("targetRef"), problems);
    }
    problems.require(!has_from || !has_rules, &at, "field 'from' must be empty when 'rules' is defined");
    problems.require(has_from || has_rules, &at, "at least one of 'from' or 'rules' has to be defined");
    let at_rules = at.field("rules");
    for (n, rule) in rules.iter().flatten().enumerate() {
        check_rule(rule, &at_rules.index(n), problems);
    }
    from_to::check_items(from.as_ref(), TargetRules::kinds(FROM), &at.field("from"), problems, |item, at, problems| {
        check_conf(&item.default, at, problems);
    });
}

/// Kuma's paths of the lists omit the `default` segment.
fn check_rule(rule: &Rule, at: &FieldPath<'_>, problems: &mut Problems) {
    let RuleConf { deny, allow_with_shadow_deny, allow } = &rule.default;
    let lists = [("allow", allow), ("allowWithShadowDeny", allow_with_shadow_deny), ("deny", deny)];
    if !lists.iter().any(|(_, list)| from_to::is_used(list.as_ref())) {
        problems.add(at, "at least one of 'allow', 'allowWithShadowDeny', 'deny' has to be defined");
    }
    for (field, list) in lists {
        let at = at.field(field);
        for (n, one) in list.iter().flatten().enumerate() {
            one.check(&at.index(n), problems);
        }
    }
}

fn check_conf(conf: &Conf, at: &FieldPath<'_>, problems: &mut Problems) {
    match conf.action.as_ref().filter(|action| !action.as_str().is_empty()) {
        None => problems.add(&at.field("action"), "must be defined"),
        Some(action) => {
            action.check(at, "action", problems);
        }
    }
}
