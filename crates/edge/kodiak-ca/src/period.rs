//! For which time a certificate is made.
//!
//! Time is cut into periods of a share of the lifetime, for every proxy at other places, so that not all of them ask at
//! once. Within a period the certificate is the same. It lives longer than the period: the rest of its life is the time
//! that a control plane may be away before the first certificate expires.

use std::time::Duration;

use jiff::Timestamp;
use kodiak_crypto::TEN_YEARS;

use crate::hash;

/// The life of a certificate when the mesh does not say.
pub(crate) const DEFAULT_LIFETIME: Duration = Duration::from_hours(24);

/// Certificates count whole seconds, and both parts of a life must be one.
const SHORTEST: Duration = Duration::from_secs(2);

/// For machines whose clock is behind that of the control plane: when that jumps ahead by an hour, the certificates that it
/// issues are still valid everywhere.
const CLOCK_SKEW: i64 = 2 * 60 * 60;

/// When certificates are replaced, as a share of their life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewal(u8);

impl Renewal {
    /// From 10 to 90 percent.
    pub fn at_percent(percent: u8) -> Option<Self> {
        (10..=90).contains(&percent).then_some(Self(percent))
    }

    /// Of a life in seconds.
    fn of(self, lifetime: i64) -> i64 {
        (lifetime * i64::from(self.0) / 100).clamp(1, lifetime - 1)
    }
}

/// Half-way.
impl Default for Renewal {
    fn default() -> Self {
        Self(50)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Period {
    pub(crate) epoch: u64,
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
    pub(crate) renew_at: Timestamp,
}

impl Period {
    /// The period of this moment. A certificate does not say that it is valid when its authority is not.
    pub(crate) fn at(
        now: Timestamp,
        proxy: &str,
        lifetime: Duration,
        renewal: Renewal,
        authority: (Timestamp, Timestamp),
    ) -> Self {
        let lifetime = seconds(lifetime.clamp(SHORTEST, TEN_YEARS));
        let length = renewal.of(lifetime);
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
            percent in 10_u8..=90,
            name in "[a-z]{1,8}",
        ) {
            let (lifetime, renewal) = (Duration::from_secs(lifetime), Renewal::at_percent(percent).unwrap());
            let period = Period::at(at(now), &name, lifetime, renewal, ALWAYS);
            prop_assert!(period.not_before < at(now) && at(now) < period.renew_at && period.renew_at <= period.not_after);
            let next = Period::at(period.renew_at, &name, lifetime, renewal, ALWAYS);
            prop_assert_eq!(next.epoch, period.epoch + 1);
            prop_assert!(next.not_before < period.not_after, "there is no gap");
            let last = at(period.renew_at.as_second() - 1);
            prop_assert_eq!(Period::at(last, &name, lifetime, renewal, ALWAYS), period);
        }
    }

    #[test]
    fn proxies_do_not_change_at_the_same_time() {
        let now = at(1_800_000_000);
        let ends: std::collections::BTreeSet<_> = (0..100)
            .map(|n| {
                Period::at(now, &format!("default/web-{n}"), DEFAULT_LIFETIME, Renewal::default(), ALWAYS).renew_at
            })
            .collect();
        assert!(ends.len() > 90, "{}", ends.len());
    }

    #[test]
    fn the_share_decides_how_long_a_control_plane_may_be_away() {
        let now = at(1_800_000_000);
        for (percent, hours) in [(10, 90), (50, 50), (90, 10)] {
            let renewal = Renewal::at_percent(percent).unwrap();
            let period = Period::at(now, "default/web-1", Duration::from_hours(100), renewal, ALWAYS);
            assert_eq!(period.not_after.as_second() - period.renew_at.as_second(), hours * 3600, "{percent}");
        }
        assert!(Renewal::at_percent(9).is_none() && Renewal::at_percent(91).is_none());
    }

    #[test]
    fn a_certificate_stays_within_the_life_of_its_authority() {
        let now = at(1_800_000_000);
        let authority = (at(1_799_999_999), at(1_800_000_001));
        let period = Period::at(now, "default/web-1", DEFAULT_LIFETIME, Renewal::default(), authority);
        assert_eq!((period.not_before, period.not_after), authority);
        assert_eq!(period.renew_at, authority.1);
    }
}
