//! Location of a redirect.

use kodiak_envoy::envoy::config::route::v3::redirect_action::{
    PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier,
};
use kodiak_envoy::envoy::config::route::v3::{RedirectAction, RouteMatch};

use super::action::replace_prefix;
use super::answer::Answer;
use super::refusal::{Refusal, refuse_if};
use super::request::Request;
use super::strings;

pub(super) fn redirect(
    redirect: &RedirectAction,
    matched: &RouteMatch,
    request: &Request,
    scheme: &str,
) -> Result<Answer, Refusal> {
    let forwarded = request.headers.iter().any(|(name, _)| name == "x-forwarded-proto");
    refuse_if(forwarded, "redirects of requests that were forwarded")?;
    let new_scheme = match &redirect.scheme_rewrite_specifier {
        Some(SchemeRewriteSpecifier::HttpsRedirect(true)) => "https",
        Some(SchemeRewriteSpecifier::SchemeRedirect(scheme)) if !scheme.is_empty() => scheme,
        Some(SchemeRewriteSpecifier::HttpsRedirect(false) | SchemeRewriteSpecifier::SchemeRedirect(_)) | None => scheme,
    };
    let port = if redirect.port_redirect == 0 { String::new() } else { format!(":{}", redirect.port_redirect) };
    let host = match redirect.host_redirect.as_str() {
        "" => own_host(request, scheme, new_scheme, &port),
        host => host,
    };
    let status = match RedirectResponseCode::try_from(redirect.response_code) {
        Ok(RedirectResponseCode::MovedPermanently) => 301,
        Ok(RedirectResponseCode::Found) => 302,
        Ok(RedirectResponseCode::SeeOther) => 303,
        Ok(RedirectResponseCode::TemporaryRedirect) => 307,
        Ok(RedirectResponseCode::PermanentRedirect) => 308,
        Err(_) => return Err(Refusal::unsupported(format!("the redirect code {}", redirect.response_code))),
    };
    let path = path(redirect, matched, request)?;
    Ok(Answer::Redirected { status, location: format!("{new_scheme}://{host}{port}{path}") })
}

/// Without its port when there is a new one, or when it is the default port and the scheme changes.
fn own_host<'a>(request: &'a Request, scheme: &str, new_scheme: &str, new_port: &str) -> &'a str {
    let Some((host, port)) = request.authority.rsplit_once(':') else { return &request.authority };
    if port.contains(']') {
        return &request.authority;
    }
    let default = matches!((scheme, port), ("http", "80") | ("https", "443"));
    if !new_port.is_empty() || (scheme != new_scheme && default) { host } else { &request.authority }
}

/// A new path with a query of its own replaces the query of the request.
fn path(redirect: &RedirectAction, matched: &RouteMatch, request: &Request) -> Result<String, Refusal> {
    let query = if redirect.strip_query { "" } else { request.query() };
    let own = request.path_without_query();
    let path = match &redirect.path_rewrite_specifier {
        None => own.to_owned(),
        Some(PathRewriteSpecifier::PathRedirect(path)) if path.is_empty() => own.to_owned(),
        Some(PathRewriteSpecifier::PathRedirect(path)) if path.contains('?') => return Ok(path.clone()),
        Some(PathRewriteSpecifier::PathRedirect(path)) => path.clone(),
        Some(PathRewriteSpecifier::PrefixRewrite(prefix)) => replace_prefix(matched, request, prefix)?,
        Some(PathRewriteSpecifier::RegexRewrite(rewrite)) => strings::substitute(rewrite, own)?,
        Some(PathRewriteSpecifier::PathRewrite(_)) => {
            return Err(Refusal::unsupported("redirects to a formatted path"));
        }
    };
    Ok(path + query)
}
