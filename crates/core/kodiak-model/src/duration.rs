//! Durations as users write them: `1h30m` in policies, `1.5s` in legacy kinds.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const NANOS_PER_MILLI: i64 = 1_000_000;
const NANOS_PER_MICRO: i64 = 1_000;

/// A signed duration of a policy, such as `10s` or `1h30m`. Printed in full, as `1h30m0s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GoDuration(i64);

/// A duration in the JSON form of protobuf, used by legacy kinds: seconds with a fraction, such as `10s` or `1.5s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ProtoDuration(i64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotADuration(pub String);

impl fmt::Display for NotADuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a duration; write for example 10s, 500ms or 1h30m", self.0)
    }
}

impl std::error::Error for NotADuration {}

impl GoDuration {
    pub const ZERO: Self = Self(0);

    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(NANOS_PER_MILLI))
    }

    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(NANOS_PER_SECOND))
    }

    pub fn nanos(self) -> i64 {
        self.0
    }

    pub fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// `None` for negative durations.
    pub fn to_std(self) -> Option<std::time::Duration> {
        u64::try_from(self.0).ok().map(std::time::Duration::from_nanos)
    }

    pub fn parse(text: &str) -> Result<Self, NotADuration> {
        parse_go(text).map(Self).ok_or_else(|| NotADuration(text.to_owned()))
    }
}

impl ProtoDuration {
    pub fn nanos(self) -> i64 {
        self.0
    }

    /// Accepts Go durations too: `1m` and `500ms`.
    pub fn parse(text: &str) -> Result<Self, NotADuration> {
        parse_go(text).map(Self).ok_or_else(|| NotADuration(text.to_owned()))
    }
}

/// The grammar of Go's `time.ParseDuration`; `None` also when the value does not fit.
fn parse_go(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(number_end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        total = total.checked_add(scaled(number, nanos_per(unit)?)?)?;
        rest = next;
    }
    if negative { total.checked_neg() } else { Some(total) }
}

fn nanos_per(unit: &str) -> Option<i64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => NANOS_PER_MICRO,
        "ms" => NANOS_PER_MILLI,
        "s" => NANOS_PER_SECOND,
        "m" => 60 * NANOS_PER_SECOND,
        "h" => 3600 * NANOS_PER_SECOND,
        _ => return None,
    })
}

fn scaled(number: &str, unit: i64) -> Option<i64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut total = whole.checked_mul(unit)?;
    let mut place = unit;
    for digit in fraction.bytes() {
        place /= 10;
        let digit = i64::from(digit.checked_sub(b'0').filter(|d| *d < 10)?);
        total = total.checked_add(digit * place)?;
    }
    Some(total)
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let second = NANOS_PER_SECOND.unsigned_abs();
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => write!(f, "{}µs", Decimal { value: nanos, unit: 1_000 }),
            1_000_000..1_000_000_000 => write!(f, "{}ms", Decimal { value: nanos, unit: 1_000_000 }),
            _ => {
                let minutes = nanos / (60 * second);
                let rest = Decimal { value: nanos % (60 * second), unit: second };
                match (minutes / 60, minutes % 60) {
                    (0, 0) => write!(f, "{rest}s"),
                    (0, minutes) => write!(f, "{minutes}m{rest}s"),
                    (hours, minutes) => write!(f, "{hours}h{minutes}m{rest}s"),
                }
            }
        }
    }
}

impl fmt::Display for ProtoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0 {
            f.write_str("-")?;
        }
        write!(f, "{}s", Decimal { value: self.0.unsigned_abs(), unit: NANOS_PER_SECOND.unsigned_abs() })
    }
}

/// `value / unit` in decimal, without trailing zeros. `unit` is a power of ten.
struct Decimal {
    value: u64,
    unit: u64,
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.value / self.unit, self.value % self.unit);
        if fraction == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{}", self.unit + fraction);
        write!(f, "{whole}.{}", digits[1..].trim_end_matches('0'))
    }
}

macro_rules! as_text {
    ($type:ident, $format:literal) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::parse(&Cow::<str>::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "format": $format })
            }
        }
    };
}

as_text!(GoDuration, "go-duration");
as_text!(ProtoDuration, "proto-duration");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_printed_in_full() {
        for (text, printed) in [
            ("10s", "10s"),
            ("1h30m", "1h30m0s"),
            ("1.5h", "1h30m0s"),
            ("90s", "1m30s"),
            ("0", "0s"),
            ("0s", "0s"),
            ("500ms", "500ms"),
            ("1500ms", "1.5s"),
            ("-5s", "-5s"),
            ("1us", "1µs"),
            ("2h0m0.25s", "2h0m0.25s"),
        ] {
            assert_eq!(GoDuration::parse(text).map(|d| d.to_string()).as_deref(), Ok(printed), "{text}");
        }
    }

    #[test]
    fn rejects_invalid_durations() {
        for text in ["", "-", "5", "s", "1d", "1h-5m", "1.s.", ".s", "9999999999h", "1 s", "٣s"] {
            assert!(GoDuration::parse(text).is_err(), "{text}");
        }
        assert!(ProtoDuration::parse("10").is_err());
    }

    #[test]
    fn proto_durations_are_seconds() {
        assert_eq!(ProtoDuration::parse("1.500s").map(|d| d.to_string()).as_deref(), Ok("1.5s"));
        assert_eq!(ProtoDuration::parse("1m500ms").map(|d| d.to_string()).as_deref(), Ok("60.5s"));
        assert_eq!(ProtoDuration::parse("10s").map(ProtoDuration::nanos), Ok(10_000_000_000));
    }
}
