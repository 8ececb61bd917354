//! For which time a certificate is made.
//!
//! Time is cut into periods of half a lifetime, for every proxy at other places, so that not all of them ask at once.
//! Within a period the certificate is the same; it lives for a period longer, so that the next one has time to arrive.

use std::time::Duration;

use jiff::Timestamp;
use kodiak_crypto::TEN_YEARS;

use crate::hash;

/// The life of a certificate when the mesh does not say.
pub(crate) const DEFAULT_LIFETIME: Duration = Duration::from_hours(24);

/// Certificates count whole seconds, and half of it must be one.
const SHORTEST: Duration = Duration::from_secs(2);

/// For machines whose clock is behind that of the control plane: when that jumps ahead by an hour, the certificates that it
/// issues are still valid everywhere.
const CLOCK_SKEW: i64 = 2 * 60 * 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Period {
    pub(crate) epoch: u64,
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
    pub(crate) renew_at: Timestamp,
}

impl Period {
    /// The period of this moment. A certificate does not say that it is valid when its authority is not.
    pub(crate) fn at(now: Timestamp, proxy: &str, lifetime: Duration, authority: (Timestamp, Timestamp)) -> Self {
        let lifetime = seconds(lifetime.clamp(SHORTEST, TEN_YEARS));
        let length = lifetime / 2;
        let shift = hash::place(proxy, length.unsigned_abs()).cast_signed();
        let epoch = (now.as_second() + shift).div_euclid(length);
        let start = epoch * length - shift;
        let not_before = at(start - CLOCK_SKEW).max(authority.0);
        let not_after = at(start + lifetime).min(authority.1);
        Self {
            epoch: u64::try_from(epoch).unwrap_or_default(),
            not_before,
            not_after,
            renew_at: at(start + length).min(not_after),
        }
    }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

/// At the ends of what can be said, the end.
fn at(second: i64) -> Timestamp {
    let end = if second < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_second(second).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALWAYS: (Timestamp, Timestamp) = (Timestamp::MIN, Timestamp::MAX);

    proptest! {
        #[test]
        fn a_period_holds_its_moment_and_touches_the_next(
            now in 1_000_000_000_i64..4_000_000_000,
            lifetime in 0_u64..1_000_000_000,
            name in "[a-z]{1,8}",
        ) {
            let lifetime = Duration::from_secs(lifetime);
            let period = Period::at(at(now), &name, lifetime, ALWAYS);
            prop_assert!(period.not_before < at(now) && at(now) < period.renew_at && period.renew_at <= period.not_after);
            let next = Period::at(period.renew_at, &name, lifetime, ALWAYS);
            prop_assert_eq!(next.epoch, period.epoch + 1);
            prop_assert!(next.not_before < period.not_after, "there is no gap");
            let last = at(period.renew_at.as_second() - 1);
            prop_assert_eq!(Period::at(last, &name, lifetime, ALWAYS), period);
        }
    }

    #[test]
    fn proxies_do_not_change_at_the_same_time() {
        let now = at(1_800_000_000);
        let ends: std::collections::BTreeSet<_> =
            (0..100).map(|n| Period::at(now, &format!("default/web-{n}"), DEFAULT_LIFETIME, ALWAYS).renew_at).collect();
        assert!(ends.len() > 90, "{}", ends.len());
    }

    #[test]
    fn a_certificate_stays_within_the_life_of_its_authority() {
        let now = at(1_800_000_000);
        let authority = (at(1_799_999_999), at(1_800_000_001));
        let period = Period::at(now, "default/web-1", DEFAULT_LIFETIME, authority);
        assert_eq!((period.not_before, period.not_after), authority);
        assert_eq!(period.renew_at, authority.1);
    }
}
