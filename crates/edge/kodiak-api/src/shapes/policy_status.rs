//! `<policy>/{name}/_status` and `/meshes/{mesh}/_policies`.

use std::sync::Arc;

use kodiak_inspection::policy_status::{self, Reason, State, Why};
use kodiak_model::TargetRef;
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PolicyStatus {
    #[serde(rename = "type")]
    kind: &'static str,
    mesh: Arc<str>,
    name: Arc<str>,
    kri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_ref: Option<TargetRef>,
    state: &'static str,
    proxies: usize,
    proxies_total: usize,
    reasons: Vec<StatusReason>,
}

#[derive(Serialize)]
struct StatusReason {
    reason: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    policies: Vec<String>,
}

const STATES: [(&str, State); 3] =
    [("InForce", State::InForce), ("Partly", State::Partly), ("NotInForce", State::NotInForce)];

const SHADOW_ADVICE: &str =
    "`kodiak inspect dataplane NAME --type config --shadow --include diff` shows what it would do";

/// Query parameter `state`.
pub(crate) fn parse_state(text: &str) -> Option<State> {
    STATES.iter().find(|(word, _)| *word == text).map(|(_, state)| *state)
}

impl From<policy_status::PolicyStatus> for PolicyStatus {
    fn from(status: policy_status::PolicyStatus) -> Self {
        let policy_status::PolicyStatus { kind, mesh, name, kri, target_ref, state, proxies, proxies_total, reasons } =
            status;
        let state = STATES.iter().find(|(_, known)| *known == state).map_or("", |(word, _)| word);
        let reasons = reasons.into_iter().map(StatusReason::from).collect();
        Self { kind, mesh, name, kri, target_ref, state, proxies, proxies_total, reasons }
    }
}

impl From<Reason> for StatusReason {
    fn from(Reason { reason, message, path, policies }: Reason) -> Self {
        let reason = match reason {
            Why::NotSupportedYet => "NotSupportedYet",
            Why::Shadow => "Shadow",
            Why::NoMatch => "NoMatch",
            Why::UnsupportedProxyType => "UnsupportedProxyType",
            Why::Overridden => "Overridden",
            Why::Ignored => "Ignored",
            Why::NoMutualTls => "NoMutualTls",
            Why::CallersWithoutTags => "CallersWithoutTags",
            Why::NoClientPresentsIt => "NoClientPresentsIt",
            Why::TooMany => "TooMany",
            Why::Unresolved => "Unresolved",
            Why::FailedValidation => "FailedValidation",
            Why::Rejected => "Rejected",
            Why::Unreadable => "Unreadable",
        };
        let message = if reason == "Shadow" { format!("{message}; {SHADOW_ADVICE}") } else { message };
        Self { reason, message, path, policies }
    }
}
