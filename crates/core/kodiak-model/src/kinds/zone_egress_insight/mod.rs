//! ZoneEgressInsight: connections of a zone egress, as observed by the control plane.

mod spec;

use crate::{Access, CheckCtx, Kind, Language, NoStatus, Problems, Scope, Spec, subscription::Subscription};

pub use spec::ZoneEgressInsight;

pub static KIND: Kind =
    Kind::legacy("ZoneEgressInsight", "zoneegressinsights", Scope::Global, Language::of::<ZoneEgressInsight>())
        .access(Access::ReadOnly);

impl Spec for ZoneEgressInsight {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, _: &mut Problems) {}
}

impl ZoneEgressInsight {
    /// Whether the zone egress is connected to any control plane.
    pub fn is_online(&self) -> bool {
        self.subscriptions.iter().any(Subscription::is_open)
    }
}
