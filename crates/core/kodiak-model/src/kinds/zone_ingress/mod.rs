//! ZoneIngress: the proxy for traffic that enters a zone.

mod check;
mod spec;

use crate::{CheckCtx, Kind, Language, NoStatus, Overview, Problems, Scope, Spec, labels};

pub use spec::{AvailableService, Networking, ZoneIngress};

pub static KIND: Kind = Kind::legacy("ZoneIngress", "zoneingresses", Scope::Global, Language::of::<ZoneIngress>())
    .without_effect("zone ingresses are not supported yet, nor are several zones")
    .short("zi")
    .other_path("zone-ingresses")
    .overview(Overview {
        name: "ZoneIngressOverview",
        insight: "ZoneIngressInsight",
        field: "zoneIngress",
        insight_field: "zoneIngressInsight",
        old_path: "zoneingresses+insights",
    });

impl Spec for ZoneIngress {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }

    fn derived_labels(&self) -> Vec<(&'static str, Option<&'static str>)> {
        vec![(labels::PROXY_TYPE, Some("zoneingress"))]
    }
}
