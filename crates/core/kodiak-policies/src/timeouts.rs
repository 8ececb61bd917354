//! Default timeouts of routes.

use std::time::Duration;

/// From the complete request to the complete response.
pub const REQUEST: Duration = Duration::from_secs(15);
/// Of streams without data.
pub const STREAM_IDLE: Duration = Duration::from_mins(30);
