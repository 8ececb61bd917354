//! MeshRetry: retries of requests and connections.

mod check;
mod envoy;
mod spec;

use kodiak_model::{CheckCtx, Kind, Language, NoStatus, PolicyFacts, Problems, Spec, policy::ConfShape, target_ref};

use crate::target::Outbound;
use crate::{Confs, Policy};

pub use spec::{
    BackOff, Conf, Grpc, GrpcRetryOn, Http, MeshRetry, Predicate, PredicateType, RateLimitFormat, RateLimitedBackOff,
    ResetHeader, Tcp,
};

pub const POLICY: Option<&dyn Policy> = Some(&Retries);

pub static KIND: Kind = Kind::policy(
    "MeshRetry",
    "meshretries",
    "mr",
    PolicyFacts { to: true, from: false, rules: false, from_as_rules: false, conf: ConfShape::Default, order: 1400 },
    Language::of::<MeshRetry>(),
);

/// Applies the policy to proxies.
struct Retries;

impl Policy for Retries {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn outbound(&self, confs: &Confs, outbound: &mut Outbound<'_>) {
        envoy::outbound(confs, outbound);
    }
}

impl Spec for MeshRetry {
    type Status = NoStatus;

    fn check(&self, ctx: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, ctx, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        target_ref::deprecations(self.target_ref.as_ref())
    }
}
