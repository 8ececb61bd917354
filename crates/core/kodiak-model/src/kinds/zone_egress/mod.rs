//! ZoneEgress: the proxy for traffic that leaves a zone.

mod check;
mod spec;

use crate::{CheckCtx, Kind, Language, NoStatus, Overview, Problems, Scope, Spec, labels};

pub use spec::{Networking, ZoneEgress};

pub static KIND: Kind = Kind::legacy("ZoneEgress", "zoneegresses", Scope::Global, Language::of::<ZoneEgress>())
    .short("ze")
    .overview(Overview {
        name: "ZoneEgressOverview",
        insight: "ZoneEgressInsight",
        field: "zoneEgress",
        insight_field: "zoneEgressInsight",
        old_path: "zoneegressoverviews",
    });

impl Spec for ZoneEgress {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }

    fn derived_labels(&self) -> Vec<(&'static str, Option<&'static str>)> {
        vec![(labels::PROXY_TYPE, Some("zoneegress"))]
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        vec!["proxies send calls to it, but zone egresses are not configured yet".to_owned()]
    }
}
