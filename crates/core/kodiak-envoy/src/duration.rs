//! Protobuf durations.

use std::time::Duration;

use crate::google::protobuf;

/// The longest duration that protobuf allows, about ten thousand years.
const MAX_SECONDS: u64 = 315_576_000_000;

/// Longer durations are clamped to protobuf's maximum.
pub fn duration(duration: Duration) -> protobuf::Duration {
    let longest = Duration::from_secs(MAX_SECONDS);
    let duration = duration.min(longest);
    protobuf::Duration { seconds: duration.as_secs().cast_signed(), nanos: duration.subsec_nanos().cast_signed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_nanoseconds_are_separate() {
        assert_eq!(duration(Duration::from_millis(2_500)), protobuf::Duration { seconds: 2, nanos: 500_000_000 });
        assert_eq!(duration(Duration::ZERO), protobuf::Duration::default());
    }

    #[test]
    fn long_durations_are_clamped() {
        assert_eq!(duration(Duration::MAX), protobuf::Duration { seconds: 315_576_000_000, nanos: 0 });
    }
}
