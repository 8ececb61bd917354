//! MeshTCPRoute: routing of TCP connections.

mod check;
mod envoy;
mod spec;

use std::{collections::BTreeSet, sync::Arc};

use kodiak_model::policy::{Conf, ConfShape};
use kodiak_model::{
    BackendRef, CheckCtx, Kind, Language, LegacyNames, NoStatus, PolicyFacts, Problems, Spec, target_ref,
};

use crate::target::{Backends, Outbound};
use crate::{Confs, Policy};

pub use spec::{MeshTCPRoute, Rule, RuleConf, To};

pub const POLICY: Option<&dyn Policy> = Some(&Routing);

pub static KIND: Kind = Kind::policy(
    "MeshTCPRoute",
    "meshtcproutes",
    "mtcpr",
    PolicyFacts { to: true, from: false, rules: false, from_as_rules: false, conf: ConfShape::FirstRule, order: 200 },
    Language::of::<MeshTCPRoute>(),
)
.legacy_names(LegacyNames::Nothing);

impl Spec for MeshTCPRoute {
    type Status = NoStatus;

    fn check(&self, ctx: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, ctx, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        target_ref::deprecations(self.target_ref.as_ref())
    }
}

/// Connections of a destination go to its backends.
pub struct Routing;

impl Policy for Routing {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn backends(&self, conf: &Conf) -> Vec<BackendRef> {
        conf.read::<Rule>().default.backend_refs.unwrap_or_default()
    }

    fn clusters(&self, conf: &Conf, own: &Arc<str>, backends: &Backends) -> BTreeSet<Arc<str>> {
        envoy::clusters(&self.backends(conf), own, backends)
    }

    fn outbound(&self, confs: &Confs, outbound: &mut Outbound<'_>) {
        if let Some(conf) = &confs.whole {
            envoy::apply(&self.backends(conf), outbound);
        }
    }
}
