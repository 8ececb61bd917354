//! Matchers that skip a filter for some callers.

use kodiak_envoy::any;
use kodiak_envoy::envoy::extensions::filters::common::matcher::action::v3::SkipFilter;
use kodiak_envoy::envoy::extensions::matching::common_inputs::network::v3::ServerNameInput;
use kodiak_envoy::envoy::extensions::matching::common_inputs::ssl::v3::UriSanInput;
use kodiak_envoy::google::protobuf::Any;
use kodiak_envoy::xds::core::v3::TypedExtensionConfig;
use kodiak_envoy::xds::r#type::matcher::v3::matcher::matcher_list::predicate::single_predicate::Matcher as Matched;
use kodiak_envoy::xds::r#type::matcher::v3::matcher::matcher_list::predicate::{
    MatchType, PredicateList, SinglePredicate,
};
use kodiak_envoy::xds::r#type::matcher::v3::matcher::matcher_list::{FieldMatcher, Predicate};
use kodiak_envoy::xds::r#type::matcher::v3::matcher::{MatcherList, MatcherType, OnMatch, on_match};
use kodiak_envoy::xds::r#type::matcher::v3::regex_matcher::{EngineType, GoogleRe2};
use kodiak_envoy::xds::r#type::matcher::v3::string_matcher::MatchPattern;
use kodiak_envoy::xds::r#type::matcher::v3::{Matcher, RegexMatcher, StringMatcher};

use super::injections::{Callers, Condition};

/// Skips the filter for callers in `except`, and for those that are not in `only`, unless that is empty. `None` when the
/// filter applies to all callers.
pub(super) fn of(only: &[Callers], except: &[Callers]) -> Option<Matcher> {
    let not_only = any_of(only).map(|predicate| MatchType::NotMatcher(Box::new(predicate)));
    let skipped = any_of(except).into_iter().chain(not_only.map(predicate));
    let matchers: Vec<FieldMatcher> = skipped.map(skip).collect();
    if matchers.is_empty() {
        return None;
    }
    Some(Matcher { matcher_type: Some(MatcherType::MatcherList(MatcherList { matchers })), ..Matcher::default() })
}

fn skip(predicate: Predicate) -> FieldMatcher {
    let action = extension("skip", any(&SkipFilter {}));
    let on_match = OnMatch { on_match: Some(on_match::OnMatch::Action(action)), ..OnMatch::default() };
    FieldMatcher { predicate: Some(predicate), on_match: Some(on_match) }
}

fn any_of(sets: &[Callers]) -> Option<Predicate> {
    combined(sets.iter().filter_map(all_of).collect(), MatchType::OrMatcher)
}

fn all_of(Callers(conditions): &Callers) -> Option<Predicate> {
    combined(conditions.iter().map(single).collect(), MatchType::AndMatcher)
}

/// Envoy requires at least two predicates in a list.
fn combined(predicates: Vec<Predicate>, list: fn(PredicateList) -> MatchType) -> Option<Predicate> {
    match <[Predicate; 1]>::try_from(predicates) {
        Ok([one]) => Some(one),
        Err(none) if none.is_empty() => None,
        Err(several) => Some(predicate(list(PredicateList { predicate: several }))),
    }
}

fn single(condition: &Condition) -> Predicate {
    let (input, pattern) = match condition {
        Condition::Uris(regex) => {
            let engine_type = Some(EngineType::GoogleRe2(GoogleRe2 {}));
            let pattern = MatchPattern::SafeRegex(RegexMatcher { regex: regex.clone(), engine_type });
            (extension("envoy.matching.inputs.uri_san", any(&UriSanInput {})), pattern)
        }
        Condition::Sni(name) => {
            let input = extension("envoy.matching.inputs.server_name", any(&ServerNameInput {}));
            (input, MatchPattern::Exact(name.clone()))
        }
    };
    let value = StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() };
    predicate(MatchType::SinglePredicate(SinglePredicate {
        input: Some(input),
        matcher: Some(Matched::ValueMatch(value)),
    }))
}

fn predicate(match_type: MatchType) -> Predicate {
    Predicate { match_type: Some(match_type) }
}

fn extension(name: &str, config: Any) -> TypedExtensionConfig {
    TypedExtensionConfig { name: name.to_owned(), typed_config: Some(config) }
}
