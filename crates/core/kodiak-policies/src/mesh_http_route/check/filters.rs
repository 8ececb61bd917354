//! Validation of filters.

use std::net::Ipv6Addr;

use kodiak_model::{FieldPath, Problems, TargetKind, TargetRules, dns};

use crate::{
    header::HeaderModifier,
    mesh_http_route::{
        Filter, FilterType, Match, PathMatchType, PathRewrite, RequestMirror, RequestRedirect, UrlRewrite,
    },
    routes::Callers,
    variant::member,
};

const MIRRORS: &[TargetKind] = &[TargetKind::MeshService, TargetKind::MeshServiceSubset];

pub(super) fn check(filter: &Filter, matches: &[Match], callers: Callers, at: &FieldPath<'_>, problems: &mut Problems) {
    let Filter {
        filter_type,
        request_header_modifier,
        response_header_modifier,
        request_redirect,
        url_rewrite,
        request_mirror,
    } = filter;
    let Some(filter_type) = filter_type.as_ref().and_then(|one| one.check(at, "type", problems)) else { return };
    match filter_type {
        FilterType::RequestHeaderModifier => {
            check_modifier(request_header_modifier.as_ref(), &at.field("requestHeaderModifier"), problems);
        }
        FilterType::ResponseHeaderModifier => {
            check_modifier(response_header_modifier.as_ref(), &at.field("responseHeaderModifier"), problems);
        }
        FilterType::RequestRedirect => {
            let at = at.field("requestRedirect");
            if let Some(redirect) = member(request_redirect.as_ref(), &at, problems) {
                check_redirect(redirect, matches, &at, problems);
            }
        }
        FilterType::URLRewrite => {
            let at = at.field("urlRewrite");
            if let Some(rewrite) = member(url_rewrite.as_ref(), &at, problems) {
                check_rewrite(rewrite, matches, callers, &at, problems);
            }
        }
        FilterType::RequestMirror => {
            let at = at.field("requestMirror");
            if let Some(mirror) = member(request_mirror.as_ref(), &at, problems) {
                check_mirror(mirror, &at, problems);
            }
        }
    }
}

fn check_modifier(modifier: Option<&HeaderModifier>, at: &FieldPath<'_>, problems: &mut Problems) {
    if let Some(modifier) = member(modifier, at, problems) {
        modifier.check(at, problems);
    }
}

fn check_redirect(redirect: &RequestRedirect, matches: &[Match], at: &FieldPath<'_>, problems: &mut Problems) {
    let RequestRedirect { scheme, hostname, path, port: _, status_code } = redirect;
    if let Some(scheme) = scheme {
        scheme.check(at, "scheme", problems);
    }
    check_hostname(hostname.as_deref(), &at.field("hostname"), problems);
    check_path_rewrite(path.as_ref(), matches, &at.field("path"), problems);
    if !matches!(status_code, None | Some(301 | 302 | 303 | 307 | 308)) {
        // The wording of a schema violation: a schema enum can only list strings, not numbers.
        problems.add(&at.field("statusCode"), "in body should be one of [301 302 303 307 308]");
    }
}

fn check_rewrite(
    rewrite: &UrlRewrite,
    matches: &[Match],
    callers: Callers,
    at: &FieldPath<'_>,
    problems: &mut Problems,
) {
    let UrlRewrite { hostname, path, host_to_backend_hostname } = rewrite;
    check_hostname(hostname.as_deref(), &at.field("hostname"), problems);
    check_path_rewrite(path.as_ref(), matches, &at.field("path"), problems);
    if *host_to_backend_hostname == Some(true) {
        let at = at.field("hostToBackendHostname");
        problems.require(callers == Callers::Gateway, &at, "can only be set with MeshGateway");
        problems.require(hostname.is_none(), &at, "cannot be set together with hostname");
    }
}

fn check_mirror(mirror: &RequestMirror, at: &FieldPath<'_>, problems: &mut Problems) {
    mirror.backend_ref.target_ref().check(TargetRules::kinds(MIRRORS), &at.field("backendRef"), problems);
}

fn check_path_rewrite(path: Option<&PathRewrite>, matches: &[Match], at: &FieldPath<'_>, problems: &mut Problems) {
    let Some(PathRewrite { rewrite_type, replace_full_path: _, replace_prefix_match }) = path else { return };
    if let Some(rewrite_type) = rewrite_type {
        rewrite_type.check(at, "type", problems);
    }
    if replace_prefix_match.is_some() && !matches.iter().all(is_path_prefix) {
        problems.add(&at.field("replacePrefixMatch"), "can only appear if all matches match a path prefix");
    }
}

fn is_path_prefix(one: &Match) -> bool {
    let match_type = one.path.as_ref().and_then(|path| path.match_type.as_ref());
    match_type.is_some_and(|match_type| match_type.is(PathMatchType::PathPrefix))
}

fn check_hostname(hostname: Option<&str>, at: &FieldPath<'_>, problems: &mut Problems) {
    let Some(hostname) = hostname else { return };
    if is_ip_address(hostname) {
        problems.add(at, "cannot be an IP address");
        return;
    }
    for message in dns::dns_1123_subdomain(hostname) {
        problems.add(at, message);
    }
}

/// Accepts leading zeros: `010.0.0.1` is not a hostname either.
fn is_ip_address(text: &str) -> bool {
    let is_byte = |part: &str| part.bytes().all(|b| b.is_ascii_digit()) && part.parse::<u8>().is_ok();
    text.parse::<Ipv6Addr>().is_ok() || (text.split('.').count() == 4 && text.split('.').all(is_byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostnames_must_be_dns_names() {
        let check = |hostname| {
            let mut problems = Problems::default();
            check_hostname(Some(hostname), &FieldPath::ROOT, &mut problems);
            problems.into_vec().into_iter().map(|problem| problem.message).collect::<Vec<_>>()
        };
        for name in ["example.com", "a", "1.2.3", "1.2.3.400"] {
            assert!(check(name).is_empty(), "{name}");
        }
        for address in ["10.0.0.1", "010.0.0.1", "::1", "fd00::1:2"] {
            assert_eq!(check(address), ["cannot be an IP address"]);
        }
        assert_eq!(check("Example_com"), dns::dns_1123_subdomain("Example_com"));
    }
}
