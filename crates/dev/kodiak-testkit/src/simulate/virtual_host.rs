//! Selects the virtual host of a request, and its first matching route.

use kodiak_envoy::envoy::config::route::v3::{Route, RouteConfiguration, VirtualHost};

use super::rbac::Seen;
use super::refusal::{Refusal, refuse_if};
use super::request::Request;
use super::route_match;

/// `None` without a virtual host or route. Envoy does not try another virtual host when no route matches.
pub(super) fn find<'a>(
    routes: &'a RouteConfiguration,
    request: &Request,
    seen: Seen<'_>,
) -> Result<Option<(&'a VirtualHost, &'a Route)>, Refusal> {
    let other = routes.vhds.is_some() || !routes.vhost_header.is_empty() || !routes.route_specifiers.is_empty();
    refuse_if(other, "virtual hosts that are not found by domain")?;
    refuse_if(routes.ignore_path_parameters_in_path_matching, "paths whose parameters are ignored")?;
    let Some(host) = host(routes, &request.authority) else { return Ok(None) };
    let other = host.matcher.is_some() || !host.route_specifiers.is_empty();
    refuse_if(other, &format!("routes of {} that are not in a list", host.name))?;
    refuse_if(host.require_tls != 0, &format!("virtual hosts that redirect to TLS, as {} does", host.name))?;
    for route in &host.routes {
        let matched = route.r#match.as_ref().ok_or_else(|| Refusal::unsupported("a route without a match"))?;
        if route_match::matches(matched, request, seen)? {
            return Ok(Some((host, route)));
        }
    }
    Ok(None)
}

/// The exact domain, then the longest `*.suffix`, then the longest `prefix.*`, then `*`.
fn host<'a>(routes: &'a RouteConfiguration, authority: &str) -> Option<&'a VirtualHost> {
    let mut authority = authority.to_ascii_lowercase();
    if routes.ignore_port_in_host_matching
        && let Some((name, port)) = authority.rsplit_once(':')
        && port.parse::<u16>().is_ok()
    {
        authority = name.to_owned();
    }
    let rank = |domain: &str| {
        let domain = domain.to_ascii_lowercase();
        if domain == "*" {
            return Some((0, 0));
        }
        let longer = authority.len() >= domain.len();
        match (domain.strip_prefix('*'), domain.strip_suffix('*')) {
            (Some(suffix), _) => (longer && authority.ends_with(suffix)).then_some((2, domain.len())),
            (None, Some(prefix)) => (longer && authority.starts_with(prefix)).then_some((1, domain.len())),
            (None, None) => (authority == domain).then_some((3, 0)),
        }
    };
    let ranked = routes.virtual_hosts.iter().filter_map(|host| {
        let best = host.domains.iter().filter_map(|domain| rank(domain)).max();
        best.map(|best| (best, host))
    });
    ranked.max_by_key(|(best, _)| *best).map(|(_, host)| host)
}
