//! String matchers and regular expressions.

use kodiak_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use kodiak_envoy::envoy::r#type::matcher::v3::{RegexMatchAndSubstitute, RegexMatcher, StringMatcher};
use regex_lite::Regex;

use super::refusal::Refusal;

pub(super) fn matches(matcher: &StringMatcher, text: &str) -> Result<bool, Refusal> {
    let fold = |text: &str| if matcher.ignore_case { text.to_ascii_lowercase() } else { text.to_owned() };
    let text_folded = fold(text);
    match &matcher.match_pattern {
        Some(MatchPattern::Exact(pattern)) => Ok(text_folded == fold(pattern)),
        Some(MatchPattern::Prefix(pattern)) => Ok(text_folded.starts_with(&fold(pattern))),
        Some(MatchPattern::Suffix(pattern)) => Ok(text_folded.ends_with(&fold(pattern))),
        Some(MatchPattern::Contains(pattern)) => Ok(text_folded.contains(&fold(pattern))),
        // Envoy ignores `ignore_case` here.
        Some(MatchPattern::SafeRegex(pattern)) => matches_whole(pattern, text),
        Some(MatchPattern::Custom(_)) => Err(Refusal::unsupported("a custom string matcher")),
        None => Err(Refusal::unsupported("a string matcher without a pattern")),
    }
}

/// The whole text must match.
pub(super) fn matches_whole(pattern: &RegexMatcher, text: &str) -> Result<bool, Refusal> {
    Ok(compile(&format!("^(?:{})$", pattern.regex))?.is_match(text))
}

/// Replaces every match; `\1` is the first group, `\0` the match.
pub(super) fn substitute(rewrite: &RegexMatchAndSubstitute, text: &str) -> Result<String, Refusal> {
    let pattern = rewrite.pattern.as_ref().ok_or_else(|| Refusal::unsupported("a rewrite without a pattern"))?;
    let regex = compile(&pattern.regex)?;
    let with = |found: &regex_lite::Captures<'_>| {
        let mut replacement = String::new();
        let mut characters = rewrite.substitution.chars();
        while let Some(character) = characters.next() {
            let group = if character == '\\' { characters.next() } else { None };
            match group.map(|group| (group, group.to_digit(10))) {
                None => replacement.push(character),
                Some((_, Some(digit))) => {
                    let group = found.get(digit as usize);
                    replacement.push_str(group.map_or("", |group| group.as_str()));
                }
                Some((escaped, None)) => replacement.push(escaped),
            }
        }
        replacement
    };
    Ok(regex.replace_all(text, with).into_owned())
}

fn compile(regex: &str) -> Result<Regex, Refusal> {
    Regex::new(regex).map_err(|error| Refusal::unsupported(format!("the regular expression {regex}: {error}")))
}
