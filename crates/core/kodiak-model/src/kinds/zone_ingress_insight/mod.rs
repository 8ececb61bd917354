//! ZoneIngressInsight: connections of a zone ingress, as observed by the control plane.

mod spec;

use crate::{Access, CheckCtx, Kind, Language, NoStatus, Problems, Scope, Spec, subscription::Subscription};

pub use spec::ZoneIngressInsight;

pub static KIND: Kind =
    Kind::legacy("ZoneIngressInsight", "zone-ingress-insights", Scope::Global, Language::of::<ZoneIngressInsight>())
        .access(Access::ReadOnly);

impl Spec for ZoneIngressInsight {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, _: &mut Problems) {}
}

impl ZoneIngressInsight {
    /// Whether the zone ingress is connected to any control plane.
    pub fn is_online(&self) -> bool {
        self.subscriptions.iter().any(Subscription::is_open)
    }
}
