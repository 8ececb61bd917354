//! RBAC rules, of both kinds of filters.

use kodiak_envoy::envoy::config::rbac::v3::permission::Rule;
use kodiak_envoy::envoy::config::rbac::v3::principal::Identifier;
use kodiak_envoy::envoy::config::rbac::v3::rbac::Action;
use kodiak_envoy::envoy::config::rbac::v3::{Permission, Policy, Principal, Rbac};
use kodiak_envoy::envoy::r#type::matcher::v3::{PathMatcher, path_matcher};

use super::address::{self, Destination};
use super::refusal::{Refusal, refuse_if};
use super::request::Request;
use super::{header_match, strings};

/// Inputs of RBAC rules.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) to: Destination<'a>,
    /// `None` without TLS, or when it is not terminated here.
    pub(super) uris: Option<&'a [String]>,
    pub(super) sni: &'a str,
    /// `None` for a network filter.
    pub(super) request: Option<&'a Request>,
}

impl Seen<'_> {
    pub(super) fn scheme(self) -> &'static str {
        if self.uris.is_some() { "https" } else { "http" }
    }
}

pub(super) struct Verdict {
    pub(super) allowed: bool,
    /// The first that matches, in the order of names.
    pub(super) policy: Option<String>,
}

pub(super) fn decide(rules: &Rbac, seen: Seen<'_>) -> Result<Verdict, Refusal> {
    let mut policy = None;
    for (name, one) in &rules.policies {
        if matches(one, seen)? {
            policy = Some(name.clone());
            break;
        }
    }
    let action = Action::try_from(rules.action)
        .map_err(|_| Refusal::unsupported(format!("the action {} of rules", rules.action)))?;
    let allowed = match action {
        Action::Allow => policy.is_some(),
        Action::Deny => policy.is_none(),
        Action::Log => true,
    };
    Ok(Verdict { allowed, policy })
}

fn matches(policy: &Policy, seen: Seen<'_>) -> Result<bool, Refusal> {
    refuse_if(policy.condition.is_some() || policy.checked_condition.is_some(), "conditions of rules")?;
    Ok(any(&policy.permissions, |one| permits(one, seen))? && any(&policy.principals, |one| is(one, seen))?)
}

#[allow(deprecated, reason = "all rules that Envoy has are named")]
fn permits(permission: &Permission, seen: Seen<'_>) -> Result<bool, Refusal> {
    match &permission.rule {
        Some(Rule::AndRules(set)) => all(&set.rules, |one| permits(one, seen)),
        Some(Rule::OrRules(set)) => any(&set.rules, |one| permits(one, seen)),
        Some(Rule::NotRule(one)) => Ok(!permits(one, seen)?),
        Some(Rule::Any(any)) => Ok(*any),
        Some(Rule::RequestedServerName(matcher)) => strings::matches(matcher, seen.sni),
        Some(Rule::Header(matcher)) => header_match::matches(matcher, &header(&matcher.name, seen)?),
        Some(Rule::UrlPath(matcher)) => url_path(matcher, seen),
        Some(Rule::DestinationIp(range)) => Ok(address::in_range(range, seen.to.address).is_some()),
        Some(Rule::DestinationPort(port)) => Ok(*port == u32::from(seen.to.port)),
        Some(Rule::DestinationPortRange(range)) => Ok((range.start..range.end).contains(&i32::from(seen.to.port))),
        Some(Rule::Metadata(_) | Rule::Matcher(_) | Rule::UriTemplate(_) | Rule::SourcedMetadata(_)) | None => {
            Err(Refusal::unsupported(format!("the permission {permission:?}")))
        }
    }
}

#[allow(deprecated, reason = "all principals that Envoy has are named")]
fn is(principal: &Principal, seen: Seen<'_>) -> Result<bool, Refusal> {
    match &principal.identifier {
        Some(Identifier::AndIds(set)) => all(&set.ids, |one| is(one, seen)),
        Some(Identifier::OrIds(set)) => any(&set.ids, |one| is(one, seen)),
        Some(Identifier::NotId(one)) => Ok(!is(one, seen)?),
        Some(Identifier::Any(any)) => Ok(*any),
        Some(Identifier::Authenticated(authenticated)) => match (seen.uris, &authenticated.principal_name) {
            (None, _) => Ok(false),
            (Some(_), None) => Ok(true),
            // Each URI separately: one match is enough.
            (Some(uris), Some(matcher)) => any(uris, |uri| strings::matches(matcher, uri)),
        },
        Some(Identifier::Header(matcher)) => header_match::matches(matcher, &header(&matcher.name, seen)?),
        Some(Identifier::UrlPath(matcher)) => url_path(matcher, seen),
        Some(
            Identifier::SourceIp(_)
            | Identifier::DirectRemoteIp(_)
            | Identifier::RemoteIp(_)
            | Identifier::Metadata(_)
            | Identifier::FilterState(_)
            | Identifier::SourcedMetadata(_)
            | Identifier::Custom(_),
        )
        | None => Err(Refusal::unsupported(format!("the principal {principal:?}"))),
    }
}

fn header<'a>(name: &str, seen: Seen<'a>) -> Result<Vec<&'a str>, Refusal> {
    seen.request.map_or(Ok(Vec::new()), |request| request.values(name, seen.scheme()))
}

fn url_path(matcher: &PathMatcher, seen: Seen<'_>) -> Result<bool, Refusal> {
    match (&matcher.rule, seen.request) {
        (_, None) => Ok(false),
        (Some(path_matcher::Rule::Path(matcher)), Some(request)) => {
            strings::matches(matcher, request.path_without_query())
        }
        (None, Some(_)) => Err(Refusal::unsupported("a path matcher without a path")),
    }
}

fn any<T>(items: &[T], mut test: impl FnMut(&T) -> Result<bool, Refusal>) -> Result<bool, Refusal> {
    items.iter().try_fold(false, |found, item| Ok(found || test(item)?))
}

fn all<T>(items: &[T], mut test: impl FnMut(&T) -> Result<bool, Refusal>) -> Result<bool, Refusal> {
    items.iter().try_fold(true, |found, item| Ok(found && test(item)?))
}
