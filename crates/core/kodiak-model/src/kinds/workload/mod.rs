//! Workload: the proxies of one application, selected by the label `kuma.io/workload`.

mod check;
mod spec;
mod status;

use crate::{CheckCtx, Kind, Language, Problems, Spec};

pub use spec::Workload;
pub use status::{DataplaneProxies, WorkloadStatus};

pub static KIND: Kind = Kind::plugin("Workload", "workloads", "wl", Language::of::<Workload>());

impl Spec for Workload {
    type Status = WorkloadStatus;

    fn check(&self, ctx: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(ctx, problems);
    }
}
