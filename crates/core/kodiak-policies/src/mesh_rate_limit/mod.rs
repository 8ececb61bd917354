//! MeshRateLimit: local rate limits for requests and connections.

mod check;
mod envoy;
mod spec;

use kodiak_model::{CheckCtx, Kind, Language, NoStatus, PolicyFacts, Problems, Spec, policy::ConfShape, target_ref};

pub use spec::{Conf, Local, LocalHttp, LocalTcp, MeshRateLimit, OnRateLimit, Rate};

use crate::from_to::is_used;
use crate::target::Inbound;
use crate::{Entry, Policy};

pub const POLICY: Option<&dyn Policy> = Some(&RateLimits);

pub static KIND: Kind = Kind::policy(
    "MeshRateLimit",
    "meshratelimits",
    "mrl",
    PolicyFacts { to: true, from: true, rules: true, from_as_rules: true, conf: ConfShape::Default, order: 900 },
    Language::of::<MeshRateLimit>(),
);

/// Applies the policy to proxies.
struct RateLimits;

impl Policy for RateLimits {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn inbound(&self, entries: &[Entry], inbound: &mut Inbound<'_>) {
        envoy::inbound(entries, inbound);
    }
}

impl Spec for MeshRateLimit {
    type Status = NoStatus;

    fn check(&self, ctx: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, ctx, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        let mut warnings = target_ref::deprecations(self.target_ref.as_ref());
        if is_used(self.from.as_ref()) {
            warnings.push("'from' field is deprecated, use 'rules' instead".to_owned());
        }
        warnings
    }
}
