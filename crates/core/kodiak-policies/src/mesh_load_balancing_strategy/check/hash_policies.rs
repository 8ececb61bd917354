//! Validation of hash policies.

use kodiak_model::{FieldPath, Problems};

use crate::{
    mesh_load_balancing_strategy::{Cookie, HashPolicy, HashPolicyType},
    variant::member,
};

pub(super) fn check(policies: Option<&[HashPolicy]>, at: &FieldPath<'_>, problems: &mut Problems) {
    for (n, policy) in policies.into_iter().flatten().enumerate() {
        check_one(policy, &at.index(n), problems);
    }
}

fn check_one(policy: &HashPolicy, at: &FieldPath<'_>, problems: &mut Problems) {
    let HashPolicy { policy_type, terminal: _, header, cookie, connection, query_parameter, filter_state } = policy;
    let Some(policy_type) = policy_type.as_ref().and_then(|one| one.check(at, "type", problems)) else { return };
    match policy_type {
        HashPolicyType::Header => {
            member(header.as_ref(), &at.field("header"), problems);
        }
        HashPolicyType::Cookie => {
            let at = at.field("cookie");
            if let Some(Cookie { path: Some(path), .. }) = member(cookie.as_ref(), &at, problems) {
                problems.require(path.starts_with('/'), &at.field("path"), "must be an absolute path");
            }
        }
        HashPolicyType::Connection | HashPolicyType::SourceIP => {
            member(connection.as_ref(), &at.field("connection"), problems);
        }
        HashPolicyType::QueryParameter => {
            member(query_parameter.as_ref(), &at.field("queryParameter"), problems);
        }
        HashPolicyType::FilterState => {
            member(filter_state.as_ref(), &at.field("filterState"), problems);
        }
    }
}
