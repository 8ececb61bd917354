//! Spec of MeshTrafficPermission.

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
    /// The proxies that this policy protects. All proxies of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// Callers by tags, and the action for them. The legacy form of `rules`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Vec<Item<Conf>>>,
    /// Callers by SPIFFE ID, and the action for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<Rule>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    /// AllowWithShadowDeny allows requests and logs them as if they were denied.
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
    /// Callers that are denied, regardless of the other lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<Vec<Match>>,
    /// Callers that are allowed, and logged as if they were denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_with_shadow_deny: Option<Vec<Match>>,
    /// Callers that are allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<Match>>,
}
