//! Filters of a chain, in order, up to the terminal one.

use kodiak_envoy::envoy::config::listener::v3::{Filter, filter};
use kodiak_envoy::envoy::config::rbac::v3::Rbac;
use kodiak_envoy::envoy::config::route::v3::RouteConfiguration;
use kodiak_envoy::envoy::extensions::common::matching::v3::ExtensionWithMatcher;
use kodiak_envoy::envoy::extensions::filters::http::fault::v3::HttpFault;
use kodiak_envoy::envoy::extensions::filters::http::rbac::v3::Rbac as HttpRbac;
use kodiak_envoy::envoy::extensions::filters::http::router::v3::Router;
use kodiak_envoy::envoy::extensions::filters::http::{compressor, grpc_stats, local_ratelimit, set_filter_state};
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, http_filter,
};
use kodiak_envoy::envoy::extensions::filters::network::rbac::v3::Rbac as NetworkRbac;
use kodiak_envoy::envoy::extensions::filters::network::tcp_proxy::v3::{TcpProxy, tcp_proxy::ClusterSpecifier};
use kodiak_envoy::envoy::extensions::filters::network::{
    local_ratelimit as network_ratelimit, set_filter_state as network_filter_state,
};
use kodiak_envoy::google::protobuf::Any;
use kodiak_envoy::{TypeUrl, unpack};

use super::answer::{Answer, Forwarded, Routed, Sent, Shadow, by_weight};
use super::cluster::Clusters;
use super::rbac::{self, Seen};
use super::refusal::{Refusal, refuse_if};
use super::request::Request;
use super::{action, path, tls, virtual_host};

/// Network filters that pass the first connection to an idle proxy unchanged.
const NEUTRAL_NETWORK: &[&str] =
    &[network_ratelimit::v3::LocalRateLimit::TYPE_URL, network_filter_state::v3::Config::TYPE_URL];

/// HTTP filters that pass the first request to an idle proxy unchanged, and their per-route settings.
pub(super) const NEUTRAL_HTTP: &[&str] = &[
    compressor::v3::Compressor::TYPE_URL,
    compressor::v3::CompressorPerRoute::TYPE_URL,
    grpc_stats::v3::FilterConfig::TYPE_URL,
    local_ratelimit::v3::LocalRateLimit::TYPE_URL,
    set_filter_state::v3::Config::TYPE_URL,
];

/// A connection with its filter chain, and the call on it.
pub(super) struct Accepted<'a> {
    pub(super) listener: &'a str,
    pub(super) clusters: &'a Clusters,
    pub(super) seen: Seen<'a>,
    /// `None` for TCP, or when the proxy cannot read it.
    pub(super) request: Option<&'a Request>,
    pub(super) dice: u64,
}

impl Accepted<'_> {
    fn sent(&self, shadows: Vec<Shadow>, route: Option<Routed>, answer: Answer) -> Sent {
        Sent { listener: self.listener.to_owned(), ends_tls: self.seen.uris.is_some(), shadows, route, answer }
    }
}

pub(super) fn run(accepted: &Accepted<'_>, filters: &[Filter]) -> Result<Sent, Refusal> {
    let mut shadows = Vec::new();
    for filter in filters {
        let Some(filter::ConfigType::TypedConfig(config)) = &filter.config_type else {
            return Err(Refusal::unsupported(format!("the network filter {}", filter.name)));
        };
        let url = config.type_url.as_str();
        if url == NetworkRbac::TYPE_URL {
            let config: NetworkRbac = read(config)?;
            refuse_if(config.matcher.is_some() || config.shadow_matcher.is_some(), "rules as a matcher")?;
            let rules = [config.rules.as_ref(), config.shadow_rules.as_ref()];
            shadows.extend(check(&filter.name, rules, accepted.seen, None)?);
        } else if url == TcpProxy::TYPE_URL {
            let forwarded = forward(accepted, &read(config)?)?;
            return Ok(accepted.sent(shadows, None, Answer::Forwarded(Box::new(forwarded))));
        } else if url == HttpConnectionManager::TYPE_URL {
            return http(accepted, &read(config)?, shadows);
        } else {
            refuse_if(!NEUTRAL_NETWORK.contains(&url), &format!("the network filter {} ({url})", filter.name))?;
        }
    }
    Err(Refusal::unsupported("a chain that no filter ends"))
}

/// Shadow rules are recorded before the others decide. With a status it is HTTP.
fn check(
    filter: &str,
    [rules, shadow_rules]: [Option<&Rbac>; 2],
    seen: Seen<'_>,
    status: Option<u16>,
) -> Result<Option<Shadow>, Refusal> {
    let shadow = shadow_rules.map(|rules| rbac::decide(rules, seen)).transpose()?;
    if let Some(verdict) = rules.map(|rules| rbac::decide(rules, seen)).transpose()?.filter(|verdict| !verdict.allowed)
    {
        return Err(Refusal::Denied { filter: filter.to_owned(), policy: verdict.policy, status });
    }
    let noted =
        |verdict: rbac::Verdict| Shadow { filter: filter.to_owned(), allowed: verdict.allowed, policy: verdict.policy };
    Ok(shadow.map(noted))
}

fn forward(accepted: &Accepted<'_>, proxy: &TcpProxy) -> Result<Forwarded, Refusal> {
    refuse_if(proxy.tunneling_config.is_some(), "tunnels")?;
    let (cluster, subset) = match &proxy.cluster_specifier {
        Some(ClusterSpecifier::Cluster(cluster)) => (cluster, None),
        Some(ClusterSpecifier::WeightedClusters(weighted)) => {
            let clusters = weighted.clusters.iter().map(|cluster| (cluster, cluster.weight));
            let chosen = by_weight(clusters, accepted.dice)
                .ok_or_else(|| Refusal::unsupported("weighted clusters without any weight"))?;
            (&chosen.name, chosen.metadata_match.as_ref())
        }
        None => return Err(Refusal::unsupported("a TCP proxy without a cluster")),
    };
    let subset = subset.or(proxy.metadata_match.as_ref());
    let endpoints = accepted.clusters.endpoints(cluster, accepted.seen.to, subset)?;
    Ok(Forwarded { cluster: cluster.clone(), endpoints, http: None })
}

/// The route is selected first, for per-route settings; only the router fails when there is none.
fn http(accepted: &Accepted<'_>, manager: &HttpConnectionManager, mut shadows: Vec<Shadow>) -> Result<Sent, Refusal> {
    let request = accepted.request.ok_or_else(|| Refusal::NotHttp { listener: accepted.listener.to_owned() })?.clone();
    let request = path::normalize(manager, request)?;
    let seen = Seen { request: Some(&request), ..accepted.seen };
    let routes = routes(manager)?;
    let route = virtual_host::find(routes, &request, seen)?;
    if let Some((host, route)) = route {
        neutral_per_route(&routes.typed_per_filter_config)?;
        neutral_per_route(&host.typed_per_filter_config)?;
        neutral_per_route(&route.typed_per_filter_config)?;
    }
    for filter in manager.http_filters.iter().filter(|filter| !filter.disabled) {
        let (url, config) = typed(filter)?;
        if url == HttpRbac::TYPE_URL {
            let config: HttpRbac = read(config)?;
            refuse_if(config.matcher.is_some() || config.shadow_matcher.is_some(), "rules as a matcher")?;
            let rules = [config.rules.as_ref(), config.shadow_rules.as_ref()];
            shadows.extend(check(&filter.name, rules, seen, Some(403))?);
        } else if url == Router::TYPE_URL {
            let (host, route) = route.ok_or(Refusal::NoRoute)?;
            let (way, answer) = action::act(accepted, routes, host, route, &request)?;
            return Ok(accepted.sent(shadows, Some(way), answer));
        } else {
            let is_neutral = NEUTRAL_HTTP.contains(&url) || is_fault(config)?;
            refuse_if(!is_neutral, &format!("the HTTP filter {} ({url})", filter.name))?;
        }
    }
    Err(Refusal::unsupported("HTTP filters without a router"))
}

/// Whether it injects faults, for all callers or for some. The simulated request is one that they miss.
fn is_fault(config: &Any) -> Result<bool, Refusal> {
    if config.type_url != ExtensionWithMatcher::TYPE_URL {
        return Ok(config.type_url == HttpFault::TYPE_URL);
    }
    let wrapped = read::<ExtensionWithMatcher>(config)?.extension_config.and_then(|wrapped| wrapped.typed_config);
    Ok(wrapped.is_some_and(|wrapped| wrapped.type_url == HttpFault::TYPE_URL))
}

fn routes(manager: &HttpConnectionManager) -> Result<&RouteConfiguration, Refusal> {
    match &manager.route_specifier {
        Some(RouteSpecifier::RouteConfig(routes)) => Ok(routes),
        Some(RouteSpecifier::Rds(_) | RouteSpecifier::ScopedRoutes(_)) | None => {
            Err(Refusal::unsupported("routes that are not inside the listener"))
        }
    }
}

pub(super) fn neutral_per_route<'a>(configs: impl IntoIterator<Item = (&'a String, &'a Any)>) -> Result<(), Refusal> {
    for (name, config) in configs {
        let neutral = NEUTRAL_HTTP.contains(&config.type_url.as_str());
        refuse_if(!neutral, &format!("settings of a route for {name} ({})", config.type_url))?;
    }
    Ok(())
}

fn typed(filter: &HttpFilter) -> Result<(&str, &Any), Refusal> {
    match &filter.config_type {
        Some(http_filter::ConfigType::TypedConfig(config)) => Ok((&config.type_url, config)),
        Some(http_filter::ConfigType::ConfigDiscovery(_)) | None => {
            Err(Refusal::unsupported(format!("the HTTP filter {} without its settings", filter.name)))
        }
    }
}

fn read<M: TypeUrl>(config: &Any) -> Result<M, Refusal> {
    unpack(config).map_err(tls::malformed)
}
