//! MeshTrafficPermission: which callers may access which proxies.

mod admitted;
mod caller;
mod check;
mod envoy;
mod permissions;
mod spec;
#[cfg(test)]
mod tests;
mod verdict;

use kodiak_model::{
    CheckCtx, Kind, Language, NoStatus, PolicyFacts, Problems, Spec, TargetKind,
    policy::{self, ConfShape},
    source_match::Match,
    target_ref,
};

use crate::target::Inbound;
use crate::{Entry, Policy};

pub use admitted::{Callers, UriMatch};
pub use caller::{Caller, uris};
pub use permissions::Permissions;
pub use spec::{Action, Conf, MeshTrafficPermission, Rule, RuleConf};
pub use verdict::Verdict;

pub const POLICY: Option<&dyn Policy> = Some(&TrafficPermissions);

pub static KIND: Kind = Kind::policy(
    "MeshTrafficPermission",
    "meshtrafficpermissions",
    "mtp",
    PolicyFacts { to: false, from: true, rules: true, from_as_rules: false, conf: ConfShape::Default, order: 1100 },
    Language::of::<MeshTrafficPermission>(),
);

/// Applies the policy to proxies.
struct TrafficPermissions;

impl Policy for TrafficPermissions {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn needs_mtls(&self) -> bool {
        true
    }

    fn callers(&self, conf: &policy::Conf) -> Vec<(String, Match)> {
        let RuleConf { deny, allow_with_shadow_deny, allow } = conf.read();
        let lists = [("deny", deny), ("allowWithShadowDeny", allow_with_shadow_deny), ("allow", allow)];
        let named = lists.into_iter().flat_map(|(list, items)| {
            let items = items.into_iter().flatten().enumerate();
            items.map(move |(n, one)| (format!("{list}[{n}]"), one))
        });
        named.collect()
    }

    fn inbound(&self, entries: &[Entry], inbound: &mut Inbound<'_>) {
        envoy::inbound(entries, inbound);
    }
}

impl Spec for MeshTrafficPermission {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        let from = self.from.as_deref().unwrap_or_default();
        let mut warnings = Vec::new();
        if !from.is_empty() {
            warnings.push(
                "'from' field is deprecated and will be removed in 3.0, use 'rules' with MeshIdentity (spiffeId) instead"
                    .to_owned(),
            );
        }
        let services = from.iter().filter(|item| item.target_ref.known_kind() == Some(TargetKind::MeshService));
        warnings.extend(services.map(|_| {
            "MeshService value for 'from[].targetRef.kind' is deprecated, use MeshSubset with 'kuma.io/service' instead"
                .to_owned()
        }));
        warnings.extend(target_ref::deprecations(self.target_ref.as_ref()));
        warnings
    }
}
