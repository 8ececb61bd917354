//! MeshHTTPRoute: routing and modification of HTTP requests.

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

pub use spec::{
    Filter, FilterType, Match, MeshHTTPRoute, Method, PathMatch, PathMatchType, PathRewrite, PathRewriteType,
    QueryParamsMatch, QueryParamsMatchType, RequestMirror, RequestRedirect, Rule, RuleConf, Scheme, To, UrlRewrite,
};

pub const POLICY: Option<&dyn Policy> = Some(&Routing);

pub static KIND: Kind = Kind::policy(
    "MeshHTTPRoute",
    "meshhttproutes",
    "mhttpr",
    PolicyFacts { to: true, from: false, rules: false, from_as_rules: false, conf: ConfShape::Routes, order: 100 },
    Language::of::<MeshHTTPRoute>(),
)
.legacy_names(LegacyNames::Nothing);

impl Spec for MeshHTTPRoute {
    type Status = NoStatus;

    fn check(&self, ctx: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, ctx, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        target_ref::deprecations(self.target_ref.as_ref())
    }
}

/// Each match of each rule becomes a route of the destination.
pub struct Routing;

impl Policy for Routing {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn backends(&self, conf: &Conf) -> Vec<BackendRef> {
        conf.read::<envoy::Rules>().backends()
    }

    fn clusters(&self, conf: &Conf, own: &Arc<str>, backends: &Backends) -> BTreeSet<Arc<str>> {
        conf.read::<envoy::Rules>().clusters(own, backends)
    }

    fn mirrors(&self, conf: &Conf, backends: &Backends) -> BTreeSet<Arc<str>> {
        conf.read::<envoy::Rules>().mirrors(backends)
    }

    fn redirects(&self, conf: &Conf) -> bool {
        conf.read::<envoy::Rules>().redirects()
    }

    fn routes(&self, conf: &Conf) -> Vec<Arc<str>> {
        conf.read::<envoy::Rules>().names()
    }

    fn outbound(&self, confs: &Confs, outbound: &mut Outbound<'_>) {
        if let Some(conf) = &confs.whole {
            conf.read::<envoy::Rules>().apply(outbound);
        }
    }
}
