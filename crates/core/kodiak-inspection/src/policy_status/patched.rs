//! Proxies that have resources in their last good version because of a MeshProxyPatch.
//!
//! Whether a patch is valid depends on the configuration of a proxy, and in the end on its Envoy. Connected proxies know.

use kodiak_policies::mesh_proxy_patch::{self, ResourceType};
use kodiak_rules::{Policy, PolicyIndex, Shadow};

use super::{PolicyStatus, Reason, State, Why};

/// Configuration problems of a connected proxy.
#[derive(Debug, Clone, Default)]
pub struct ProxyProblems {
    /// Why its new configuration was not published.
    pub faults: Vec<String>,
    /// Resource types that its Envoy rejects now, such as `lds`, and Envoy's errors.
    pub rejected: Vec<(&'static str, String)>,
}

/// Whether policies of a kind can make the configuration of a proxy invalid.
pub fn can_break_proxies(kind: &str) -> bool {
    kind == mesh_proxy_patch::KIND.name
}

impl PolicyStatus {
    /// Adds problems of the proxies that the policy selects. `problems_of` is `None` for proxies that are not connected.
    pub fn with_problems(
        mut self,
        policy: &Policy,
        index: &PolicyIndex,
        problems_of: impl Fn(&str) -> Option<ProxyProblems>,
    ) -> Self {
        if !can_break_proxies(policy.kind.name) || self.state == State::NotInForce {
            return self;
        }
        let selected = index.selected(policy, Shadow::Ignored);
        let (mut invalid, mut rejected) = (Problem::default(), Problem::default());
        for proxy in &selected {
            let Some(problems) = problems_of(proxy) else { continue };
            let fault = problems.faults.iter().find(|fault| mesh_proxy_patch::is_fault_of(fault, &policy.name));
            let refused = problems.rejected.iter().find(|(short, _)| changes(policy, short));
            match (fault, refused) {
                (Some(fault), _) => invalid.add(proxy, fault),
                (None, Some((_, error))) => rejected.add(proxy, error),
                (None, None) => (),
            }
        }
        self.proxies = self.proxies.saturating_sub(invalid.count + rejected.count);
        let total = selected.len();
        self.reasons.extend(invalid.reason(Why::FailedValidation, "the patched configuration fails validation", total));
        self.reasons.extend(rejected.reason(Why::Rejected, "Envoy rejects the patched configuration", total));
        self.state = match (self.proxies, self.reasons.is_empty()) {
            (0, _) => State::NotInForce,
            (_, true) => State::InForce,
            (_, false) => State::Partly,
        };
        self
    }
}

/// Whether a policy modifies resources of a type, which has a short name.
fn changes(policy: &Policy, short: &str) -> bool {
    let resource_type = match short {
        "cds" => ResourceType::Cluster,
        "lds" => ResourceType::Listener,
        _ => return false,
    };
    policy.body.default.as_ref().is_some_and(|conf| mesh_proxy_patch::changes(conf, resource_type))
}

/// A problem of some proxies, with the first of them as an example.
#[derive(Default)]
struct Problem {
    count: usize,
    example: Option<(String, String)>,
}

impl Problem {
    fn add(&mut self, proxy: &str, error: &str) {
        self.count += 1;
        self.example.get_or_insert_with(|| (proxy.to_owned(), error.to_owned()));
    }

    fn reason(self, why: Why, problem: &str, total: usize) -> Option<Reason> {
        let Self { count, example } = self;
        let (proxy, error) = example?;
        let text = format!(
            "on {count} of {total} proxies, {problem}, and what failed stays at its last good version; {proxy}: {error}"
        );
        Some(Reason::new(why, text).at("spec.default"))
    }
}
