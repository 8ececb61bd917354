//! The structure that most policies share: a list of `{targetRef, default}` under `to` or `from`, and `{matches,
//! default}` under `rules`.

use kodiak_model::{FieldPath, Problems, TargetRef, TargetRules, source_match::Match};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An item of `to` or `from`: a `targetRef` and its conf.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(bound = "C: JsonSchema + Default + Serialize", extend("required" = ["targetRef"]))]
pub struct Item<C> {
    pub target_ref: TargetRef,
    pub default: C,
}

/// An item of `rules`: a conf and the callers that it applies to. Without matches it applies to all callers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(bound = "C: JsonSchema + Default + Serialize")]
pub struct Rule<C> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<Vec<Match>>,
    pub default: C,
}

/// Validates the refs of a list, and each conf with `check` at `<list>[i].default`.
pub(crate) fn check_items<C>(
    items: Option<&Vec<Item<C>>>,
    rules: TargetRules<'_>,
    at: &FieldPath<'_>,
    problems: &mut Problems,
    check: impl Fn(&Item<C>, &FieldPath<'_>, &mut Problems),
) {
    for (n, item) in items.into_iter().flatten().enumerate() {
        let at = at.index(n);
        item.target_ref.check(rules, &at.field("targetRef"), problems);
        check(item, &at.field("default"), problems);
    }
}

/// An empty list has no more effect than a missing one.
pub(crate) fn is_used<T>(list: Option<&Vec<T>>) -> bool {
    list.is_some_and(|list| !list.is_empty())
}
