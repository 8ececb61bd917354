//! The timeouts of a mesh in which no MeshTimeout says otherwise.

use std::time::Duration;

pub(crate) const CONNECT: Duration = Duration::from_secs(5);
/// Of connections without requests or bytes.
pub(crate) const IDLE: Duration = Duration::from_hours(1);
/// From the whole request to the whole response.
pub(crate) const REQUEST: Duration = Duration::from_secs(15);
/// Of requests without bytes.
pub(crate) const STREAM_IDLE: Duration = Duration::from_mins(30);
/// The same where a request comes in: longer than that of any caller, so that the caller's is the one that counts.
pub(crate) const INBOUND_STREAM_IDLE: Duration = Duration::from_hours(1);
