//! What users write.

use kodiak_model::{Choice, TargetRef, source_match::Match, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::from_to::Item;

words! {
    pub enum Action {
        Allow = "Allow",
        Deny = "Deny",
        AllowWithShadowDeny = "AllowWithShadowDeny",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshTrafficPermission {
    /// The proxies this policy protects. All of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// Callers by their tags, and what happens to them. The older form of `rules`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Vec<Item<Conf>>>,
    /// Callers by their identity, and what happens to them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<Rule>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    /// AllowWithShadowDeny lets calls through and logs them as if they were denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Choice<Action>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["default"]))]
pub struct Rule {
    pub default: RuleConf,
}

/// A caller that no list matches is denied.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RuleConf {
    /// Callers that are refused, whatever the other lists say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<Vec<Match>>,
    /// Callers that are let through, and logged as if they were denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_with_shadow_deny: Option<Vec<Match>>,
    /// Callers that are let through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<Match>>,
}
