//! MeshFaultInjection: aborts, delays or slows down requests, to test how callers handle it.

mod check;
mod envoy;
mod faults;
mod injections;
mod matcher;
mod spec;

use kodiak_model::{
    CheckCtx, Kind, Language, NoStatus, PolicyFacts, Problems, Spec, TargetKind, policy::ConfShape, target_ref,
};

pub use spec::{Abort, Conf, Delay, Fault, MeshFaultInjection, ResponseBandwidth};

use crate::from_to::is_used;
use crate::target::Inbound;
use crate::{Entry, Policy};

pub const POLICY: Option<&dyn Policy> = Some(&FaultInjections);

pub static KIND: Kind = Kind::policy(
    "MeshFaultInjection",
    "meshfaultinjections",
    "mfi",
    PolicyFacts { to: true, from: true, rules: true, from_as_rules: false, conf: ConfShape::Default, order: 800 },
    Language::of::<MeshFaultInjection>(),
);

/// Applies the policy to proxies.
struct FaultInjections;

impl Policy for FaultInjections {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn merges_rules(&self) -> bool {
        true
    }

    fn inbound(&self, entries: &[Entry], inbound: &mut Inbound<'_>) {
        envoy::inbound(entries, inbound);
    }
}

impl Spec for MeshFaultInjection {
    type Status = NoStatus;

    fn check(&self, ctx: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, ctx, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        let mut warnings = target_ref::deprecations(self.target_ref.as_ref());
        if is_used(self.from.as_ref()) {
            warnings.push("'from' field is deprecated, use 'rules' with SPIFFE-based 'matches' instead".to_owned());
        }
        let by_service =
            self.from.iter().flatten().any(|item| item.target_ref.known_kind() == Some(TargetKind::MeshService));
        if by_service {
            warnings.push(
                "MeshService value for 'from[].targetRef.kind' is deprecated, use MeshSubset with 'kuma.io/service' instead"
                    .to_owned(),
            );
        }
        warnings
    }
}
