//! MeshPassthrough: destinations outside the mesh that proxies may reach.

mod check;
mod envoy;
mod spec;

use kodiak_model::{
    CheckCtx, Kind, Language, NoStatus, PolicyFacts, Problems, Spec,
    policy::{self, ConfShape},
    target_ref,
};

pub use spec::{Conf, Match, MatchType, MeshPassthrough, PassthroughMode, Protocol};

use crate::Policy;
use crate::passthrough::PassthroughRules;

pub const POLICY: Option<&dyn Policy> = Some(&Passthrough);

pub static KIND: Kind = Kind::policy(
    "MeshPassthrough",
    "meshpassthroughs",
    "mp",
    PolicyFacts { to: false, from: false, rules: false, from_as_rules: false, conf: ConfShape::Default, order: 500 },
    Language::of::<MeshPassthrough>(),
);

/// Applies the policy to proxies.
struct Passthrough;

impl Policy for Passthrough {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn needs_transparent_proxying(&self) -> bool {
        true
    }

    fn passthrough(&self, conf: &policy::Conf) -> Option<PassthroughRules> {
        Some(envoy::rules(&conf.read()))
    }
}

impl Spec for MeshPassthrough {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        target_ref::deprecations(self.target_ref.as_ref())
    }
}
