//! Zone: a part of a multi-zone deployment with a control plane of its own.

mod spec;

use crate::{CheckCtx, Kind, Language, NoStatus, Overview, Problems, Scope, Spec};

pub use spec::Zone;

pub static KIND: Kind =
    Kind::legacy("Zone", "zones", Scope::Global, Language::of::<Zone>()).short("z").overview(Overview {
        name: "ZoneOverview",
        insight: "ZoneInsight",
        field: "zone",
        insight_field: "zoneInsight",
        old_path: "zones+insights",
    });

impl Spec for Zone {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, _: &mut Problems) {}
}
