//! Converts the filters of a rule to Envoy's route actions.

use kodiak_envoy::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use kodiak_envoy::envoy::config::core::v3::{HeaderValueOption, RuntimeFractionalPercent};
use kodiak_envoy::envoy::config::route::v3::redirect_action::{
    PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier,
};
use kodiak_envoy::envoy::config::route::v3::route_action::{HostRewriteSpecifier, RequestMirrorPolicy};
use kodiak_envoy::envoy::config::route::v3::route_match::PathSpecifier;
use kodiak_envoy::envoy::config::route::v3::{RedirectAction, Route, RouteAction, RouteMatch, route};
use kodiak_envoy::envoy::r#type::matcher::v3::{RegexMatchAndSubstitute, RegexMatcher};
use kodiak_envoy::envoy::r#type::v3::{FractionalPercent, fractional_percent::DenominatorType};
use kodiak_model::{Choice, IntOrString};

use crate::convert::header_value;
use crate::header::{HeaderKeyValue, HeaderModifier};
use crate::mesh_http_route::{
    Filter, FilterType, PathRewrite, PathRewriteType, RequestMirror, RequestRedirect, UrlRewrite,
};
use crate::target::Backends;

pub(super) fn is_redirect(filter: &Filter) -> bool {
    filter.filter_type.as_ref().is_some_and(|one| one.is(FilterType::RequestRedirect))
}

/// Applies to a route that has its match and its action. A redirected request has no upstream, so filters for forwarded
/// requests are skipped.
pub(super) fn apply(filter: &Filter, route: &mut Route, backends: &Backends) {
    let Filter {
        filter_type,
        request_header_modifier,
        response_header_modifier,
        request_redirect,
        url_rewrite,
        request_mirror,
    } = filter;
    let matched = route.r#match.as_ref();
    match (filter_type.as_ref().and_then(Choice::known), &mut route.action) {
        (Some(FilterType::RequestHeaderModifier), _) => {
            let (added, removed) = (&mut route.request_headers_to_add, &mut route.request_headers_to_remove);
            modify(request_header_modifier.as_ref(), added, removed);
        }
        (Some(FilterType::ResponseHeaderModifier), _) => {
            let (added, removed) = (&mut route.response_headers_to_add, &mut route.response_headers_to_remove);
            modify(response_header_modifier.as_ref(), added, removed);
        }
        (Some(FilterType::RequestRedirect), action) => {
            let redirect = request_redirect.as_ref().map(|written| redirect(written, matched));
            *action = redirect.map(route::Action::Redirect).or(action.take());
        }
        (Some(FilterType::URLRewrite), Some(route::Action::Route(action))) => {
            if let Some(written) = url_rewrite {
                rewrite(written, matched, action);
            }
        }
        (Some(FilterType::RequestMirror), Some(route::Action::Route(action))) => {
            action.request_mirror_policies.extend(request_mirror.as_ref().and_then(|one| mirror(one, backends)));
        }
        _ => (),
    }
}

fn modify(written: Option<&HeaderModifier>, added: &mut Vec<HeaderValueOption>, removed: &mut Vec<String>) {
    let Some(HeaderModifier { set, add, remove }) = written else { return };
    let values = |headers: &Option<Vec<HeaderKeyValue>>, action: HeaderAppendAction| {
        let option = |header| header_value(header, action);
        headers.iter().flatten().map(option).collect::<Vec<_>>()
    };
    added.extend(values(set, HeaderAppendAction::OverwriteIfExistsOrAdd));
    added.extend(values(add, HeaderAppendAction::AppendIfExistsOrAdd));
    removed.extend(remove.iter().flatten().cloned());
}

fn redirect(written: &RequestRedirect, matched: Option<&RouteMatch>) -> RedirectAction {
    let RequestRedirect { scheme, hostname, path, port, status_code } = written;
    let code = match status_code {
        Some(301) => RedirectResponseCode::MovedPermanently,
        Some(303) => RedirectResponseCode::SeeOther,
        Some(307) => RedirectResponseCode::TemporaryRedirect,
        Some(308) => RedirectResponseCode::PermanentRedirect,
        _ => RedirectResponseCode::Found,
    };
    let path = path.as_ref().and_then(|path| NewPath::of(path, matched)).map(|path| match path {
        NewPath::Full(path) => PathRewriteSpecifier::PathRedirect(path),
        NewPath::Prefix(prefix) => PathRewriteSpecifier::PrefixRewrite(prefix),
    });
    RedirectAction {
        scheme_rewrite_specifier: scheme
            .as_ref()
            .map(|scheme| SchemeRewriteSpecifier::SchemeRedirect(scheme.as_str().to_owned())),
        host_redirect: hostname.clone().unwrap_or_default(),
        port_redirect: port.unwrap_or_default(),
        path_rewrite_specifier: path,
        response_code: code.into(),
        ..RedirectAction::default()
    }
}

fn rewrite(written: &UrlRewrite, matched: Option<&RouteMatch>, action: &mut RouteAction) {
    // The third field is only for gateways.
    let UrlRewrite { hostname, path, host_to_backend_hostname: _ } = written;
    if let Some(hostname) = hostname {
        action.host_rewrite_specifier = Some(HostRewriteSpecifier::HostRewriteLiteral(hostname.clone()));
    }
    match path.as_ref().and_then(|path| NewPath::of(path, matched)) {
        Some(NewPath::Full(path)) => action.regex_rewrite = Some(whole_path(&path)),
        Some(NewPath::Prefix(prefix)) => action.prefix_rewrite = prefix,
        None => (),
    }
}

/// Replacement of the request path, or of its matched prefix.
enum NewPath {
    Full(String),
    Prefix(String),
}

impl NewPath {
    /// The route for paths below a prefix also matches the slash after it, so the new prefix must end with one.
    fn of(written: &PathRewrite, matched: Option<&RouteMatch>) -> Option<Self> {
        let PathRewrite { rewrite_type, replace_full_path, replace_prefix_match } = written;
        match rewrite_type.as_ref()?.known()? {
            PathRewriteType::ReplaceFullPath => Some(Self::Full(absolute(replace_full_path.as_ref()?))),
            PathRewriteType::ReplacePrefixMatch => {
                let new = replace_prefix_match.as_ref()?.trim_end_matches('/');
                match matched?.path_specifier.as_ref()? {
                    PathSpecifier::Prefix(_) => Some(Self::Prefix(absolute(&format!("{new}/")))),
                    _ => Some(Self::Full(absolute(new))),
                }
            }
        }
    }
}

fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

/// Replaces the path and keeps the query.
fn whole_path(path: &str) -> RegexMatchAndSubstitute {
    RegexMatchAndSubstitute {
        pattern: Some(RegexMatcher { regex: ".*".to_owned(), ..RegexMatcher::default() }),
        substitution: path.replace('\\', r"\\"),
    }
}

/// `None` when the backend does not exist.
fn mirror(written: &RequestMirror, backends: &Backends) -> Option<RequestMirrorPolicy> {
    let RequestMirror { percentage, backend_ref } = written;
    let backend = backends.get(backend_ref).filter(|backend| super::speaks_http(backend))?;
    let fraction = |percentage| RuntimeFractionalPercent {
        default_value: Some(fraction(percentage)),
        ..RuntimeFractionalPercent::default()
    };
    Some(RequestMirrorPolicy {
        cluster: backend.cluster.to_string(),
        runtime_fraction: percentage.as_ref().map(fraction),
        ..RequestMirrorPolicy::default()
    })
}

/// In millionths: four decimal places count. An invalid percentage counts as zero.
fn fraction(percentage: &IntOrString) -> FractionalPercent {
    let millionths = (percentage.decimal().unwrap_or(0.0).clamp(0.0, 100.0) * 10_000.0).round();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between zero and a million")]
    let numerator = millionths as u32;
    FractionalPercent { numerator, denominator: DenominatorType::Million.into() }
}
