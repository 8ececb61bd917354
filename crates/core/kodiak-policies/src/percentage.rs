//! Percentages: a whole number, or a decimal number in a string.

use kodiak_envoy::envoy::r#type::v3::{FractionalPercent, fractional_percent::DenominatorType};
use kodiak_model::{FieldPath, IntOrString, Problems};

/// A required percentage.
pub(crate) fn check(value: Option<&IntOrString>, at: &FieldPath<'_>, problems: &mut Problems) {
    problems.require(value.is_some(), at, "must be defined");
    check_optional(value, at, problems);
}

/// An optional percentage.
pub(crate) fn check_optional(value: Option<&IntOrString>, at: &FieldPath<'_>, problems: &mut Problems) {
    let Some(value) = value else { return };
    match value.decimal() {
        None => problems.add(at, "string must be a valid number"),
        Some(number) => {
            problems.require((0.0..=100.0).contains(&number), at, "must be in inclusive range [0.0, 100.0]");
        }
    }
}

/// With the smallest denominator that has all decimal places; more than four are rounded. An invalid percentage counts as
/// zero.
pub(crate) fn fraction(value: &IntOrString) -> FractionalPercent {
    let percentage = value.decimal().unwrap_or(0.0).clamp(0.0, 100.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between zero and a million")]
    let millionths = (percentage * 10_000.0).round() as u32;
    let (numerator, denominator) = match (millionths % 10_000, millionths % 100) {
        (0, _) => (millionths / 10_000, DenominatorType::Hundred),
        (_, 0) => (millionths / 100, DenominatorType::TenThousand),
        (..) => (millionths, DenominatorType::Million),
    };
    FractionalPercent { numerator, denominator: denominator.into() }
}

#[cfg(test)]
mod tests {
    use super::{DenominatorType, FractionalPercent, IntOrString, fraction};

    #[test]
    fn denominator_has_all_decimal_places() {
        for (written, numerator, denominator) in [
            ("0", 0, DenominatorType::Hundred),
            ("100", 100, DenominatorType::Hundred),
            ("10.00", 10, DenominatorType::Hundred),
            ("2.5", 250, DenominatorType::TenThousand),
            ("99.99", 9_999, DenominatorType::TenThousand),
            ("0.0001", 1, DenominatorType::Million),
            ("33.33336", 333_334, DenominatorType::Million),
            ("half", 0, DenominatorType::Hundred),
        ] {
            let expected = FractionalPercent { numerator, denominator: denominator.into() };
            assert_eq!(fraction(&IntOrString::Text(written.to_owned())), expected, "{written}");
        }
        assert_eq!(fraction(&IntOrString::Int(7)).numerator, 7);
    }
}
