//! ZoneInsight: connections of a zone, as observed by the global control plane.

mod spec;

use crate::{Access, CheckCtx, Kind, Language, NoStatus, Problems, Scope, Spec};

pub use spec::{
    HealthCheck, KdsStatus, KdsStream, KdsStreams, KdsSubscription, KumaCpVersion, ZoneInsight, ZoneVersion,
};

pub static KIND: Kind =
    Kind::legacy("ZoneInsight", "zone-insights", Scope::Global, Language::of::<ZoneInsight>()).access(Access::ReadOnly);

impl Spec for ZoneInsight {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, _: &mut Problems) {}
}

impl ZoneInsight {
    /// Whether the zone is connected to any global control plane.
    pub fn is_online(&self) -> bool {
        self.subscriptions.iter().any(KdsSubscription::is_open)
    }

    pub fn last_subscription(&self) -> Option<&KdsSubscription> {
        self.subscriptions.last()
    }
}
