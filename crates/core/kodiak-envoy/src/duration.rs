//! Durations as protobuf has them.

use std::time::Duration;

use crate::google::protobuf;

/// The longest duration that protobuf allows, about ten thousand years.
const MAX_SECONDS: u64 = 315_576_000_000;

/// Longer durations than protobuf can say become the longest it can.
pub fn duration(duration: Duration) -> protobuf::Duration {
    let longest = Duration::from_secs(MAX_SECONDS);
    let duration = duration.min(longest);
    protobuf::Duration { seconds: duration.as_secs().cast_signed(), nanos: duration.subsec_nanos().cast_signed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_the_rest_are_kept_apart() {
        assert_eq!(duration(Duration::from_millis(2_500)), protobuf::Duration { seconds: 2, nanos: 500_000_000 });
        assert_eq!(duration(Duration::ZERO), protobuf::Duration::default());
    }

    #[test]
    fn what_is_too_long_becomes_the_longest() {
        assert_eq!(duration(Duration::MAX), protobuf::Duration { seconds: 315_576_000_000, nanos: 0 });
    }
}
