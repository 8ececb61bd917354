//! Default timeouts of a mesh without MeshTimeout.

use std::time::Duration;

pub(crate) use kodiak_policies::timeouts::{REQUEST, STREAM_IDLE};

pub(crate) const CONNECT: Duration = Duration::from_secs(5);
/// Of connections without requests or data.
pub(crate) const IDLE: Duration = Duration::from_hours(1);
/// Of inbound streams without data: longer than that of any caller, so that the caller's timeout applies.
pub(crate) const INBOUND_STREAM_IDLE: Duration = Duration::from_hours(1);
