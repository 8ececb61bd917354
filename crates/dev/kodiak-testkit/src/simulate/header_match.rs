//! Header matchers of routes and RBAC rules.

use kodiak_envoy::envoy::config::route::v3::HeaderMatcher;
use kodiak_envoy::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use kodiak_envoy::envoy::r#type::matcher::v3::StringMatcher;
use kodiak_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;

use super::refusal::Refusal;
use super::strings;

/// `values` are those of the matcher's header: it matches when one of them does, and inverted when none does. They are
/// not joined.
#[allow(deprecated, reason = "Envoy still takes the older forms")]
pub(super) fn matches(matcher: &HeaderMatcher, values: &[&str]) -> Result<bool, Refusal> {
    let values = if values.is_empty() && matcher.treat_missing_header_as_empty { &[""] } else { values };
    let plain = |pattern| StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() };
    let pattern = match &matcher.header_match_specifier {
        None => return Ok(values.is_empty() == matcher.invert_match),
        Some(HeaderMatchSpecifier::PresentMatch(wanted)) => {
            return Ok((values.is_empty() != *wanted) != matcher.invert_match);
        }
        // A missing header has no value to compare, so inversion does not make it match.
        Some(_) if values.is_empty() => return Ok(false),
        Some(HeaderMatchSpecifier::RangeMatch(range)) => {
            let within =
                |value: &&str| value.parse::<i64>().is_ok_and(|number| (range.start..range.end).contains(&number));
            return Ok(values.iter().any(within) != matcher.invert_match);
        }
        Some(HeaderMatchSpecifier::ExactMatch(text)) => plain(MatchPattern::Exact(text.clone())),
        Some(HeaderMatchSpecifier::PrefixMatch(text)) => plain(MatchPattern::Prefix(text.clone())),
        Some(HeaderMatchSpecifier::SuffixMatch(text)) => plain(MatchPattern::Suffix(text.clone())),
        Some(HeaderMatchSpecifier::ContainsMatch(text)) => plain(MatchPattern::Contains(text.clone())),
        Some(HeaderMatchSpecifier::SafeRegexMatch(regex)) => plain(MatchPattern::SafeRegex(regex.clone())),
        Some(HeaderMatchSpecifier::StringMatch(pattern)) => pattern.clone(),
    };
    let mut found = false;
    for value in values {
        found |= strings::matches(&pattern, value)?;
    }
    Ok(found != matcher.invert_match)
}
