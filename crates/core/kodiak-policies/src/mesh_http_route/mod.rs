//! MeshHTTPRoute: where HTTP requests go, and what is changed on the way.

mod check;
mod spec;

use kodiak_model::{CheckCtx, Kind, Language, NoStatus, OldNames, PolicyFacts, Problems, Spec, policy::ConfShape, target_ref};

pub use spec::{
    Filter, FilterType, Match, MeshHTTPRoute, Method, PathMatch, PathMatchType, PathRewrite, PathRewriteType,
    QueryParamsMatch, QueryParamsMatchType, RequestMirror, RequestRedirect, Rule, RuleConf, Scheme, To, UrlRewrite,
};

/// Not in force yet.
pub const POLICY: Option<&dyn crate::Policy> = None;

pub static KIND: Kind = Kind::policy(
    "MeshHTTPRoute",
    "meshhttproutes",
    "mhttpr",
    PolicyFacts { to: true, from: false, rules: false, from_as_rules: false, conf: ConfShape::Routes, order: 100 },
    Language::of::<MeshHTTPRoute>(),
)
.old_names(OldNames::Nothing);

impl Spec for MeshHTTPRoute {
    type Status = NoStatus;

    fn check(&self, ctx: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, ctx, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        target_ref::deprecations(self.target_ref.as_ref())
    }
}
