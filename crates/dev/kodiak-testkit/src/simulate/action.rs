//! Route actions.

use std::time::Duration;

use kodiak_envoy::envoy::config::core::v3::{DataSource, HeaderValueOption, Metadata, data_source};
use kodiak_envoy::envoy::config::route::v3::route::Action;
use kodiak_envoy::envoy::config::route::v3::route_action::{
    ClusterSpecifier, HostRewriteSpecifier, RequestMirrorPolicy,
};
use kodiak_envoy::envoy::config::route::v3::weighted_cluster::cluster_weight::HostRewriteSpecifier as WeightedHost;
use kodiak_envoy::envoy::config::route::v3::weighted_cluster::{ClusterWeight, RandomValueSpecifier};
use kodiak_envoy::envoy::config::route::v3::{
    Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost, WeightedCluster,
};
use kodiak_envoy::envoy::r#type::v3::FractionalPercent;
use kodiak_envoy::envoy::r#type::v3::fractional_percent::DenominatorType;

use super::answer::{Answer, Endpoint, Forwarded, Http, Mirror, Routed, by_weight};
use super::filters::{Accepted, neutral_per_route};
use super::header_changes::{Changes, Level};
use super::redirect::redirect;
use super::refusal::{Refusal, refuse_if};
use super::request::{Headers, Request};
use super::{route_match, strings};

/// Envoy's default.
const TIMEOUT: Duration = Duration::from_secs(15);

pub(super) fn act(
    accepted: &Accepted<'_>,
    routes: &RouteConfiguration,
    host: &VirtualHost,
    route: &Route,
    request: &Request,
) -> Result<(Routed, Answer), Refusal> {
    refuse_if(!route.route_specifiers.is_empty(), "routes that are chosen by an extension")?;
    let none = RouteMatch::default();
    let matched = route.r#match.as_ref().unwrap_or(&none);
    let mut weighted = None;
    let answer = match &route.action {
        Some(Action::Route(action)) => {
            let chosen = choose(action, request, accepted.dice)?;
            weighted = chosen.weighted;
            let changes = changes(routes, host, route, weighted, Side::Request)?;
            let endpoints = accepted.clusters.endpoints(&chosen.cluster, accepted.seen.to, chosen.subset)?;
            let mut headers = request.headers.clone();
            changes.apply(&mut headers);
            let http = Http {
                authority: authority(action, weighted, request, &headers, &endpoints)?,
                path: rewritten(action, matched, request)?,
                timeout: action.timeout.as_ref().map_or(TIMEOUT, to_duration),
                retry: action.retry_policy.clone().or_else(|| host.retry_policy.clone()),
                mirrors: mirrors(routes, host, action)?,
                headers,
            };
            let http = Some(with_old_host(action, request, http));
            Answer::Forwarded(Box::new(Forwarded { cluster: chosen.cluster, endpoints, http }))
        }
        Some(Action::Redirect(to)) => redirect(to, matched, request, accepted.seen.scheme())?,
        Some(Action::DirectResponse(response)) => {
            refuse_if(response.body_format.is_some(), "answers with a format")?;
            let status = u16::try_from(response.status)
                .map_err(|_| Refusal::unsupported(format!("the status {}", response.status)))?;
            Answer::Responded { status, body: body(response.body.as_ref())? }
        }
        Some(Action::FilterAction(_) | Action::NonForwardingAction(_)) | None => {
            return Err(Refusal::unsupported(format!("the action of route {}", route.name)));
        }
    };
    let response = changes(routes, host, route, weighted, Side::Response)?;
    Ok((Routed { virtual_host: host.name.clone(), name: route.name.clone(), response }, answer))
}

/// The path with its matched prefix replaced, without the query.
pub(super) fn replace_prefix(matched: &RouteMatch, request: &Request, with: &str) -> Result<String, Refusal> {
    let path = request.path_without_query();
    let length = route_match::matched_path(matched, request)?.unwrap_or(0);
    Ok(format!("{with}{}", &path[length..]))
}

struct Chosen<'a> {
    cluster: String,
    subset: Option<&'a Metadata>,
    weighted: Option<&'a ClusterWeight>,
}

fn choose<'a>(action: &'a RouteAction, request: &Request, dice: u64) -> Result<Chosen<'a>, Refusal> {
    let one = |cluster: String| Chosen { cluster, subset: action.metadata_match.as_ref(), weighted: None };
    match &action.cluster_specifier {
        Some(ClusterSpecifier::Cluster(cluster)) => Ok(one(cluster.clone())),
        Some(ClusterSpecifier::ClusterHeader(header)) => {
            // Without the header it is the cluster with an empty name, which does not exist.
            Ok(one(request.value(header)?.unwrap_or_default().to_owned()))
        }
        Some(ClusterSpecifier::WeightedClusters(clusters)) => {
            let dice = random(clusters, request, dice)?;
            let weights = clusters.clusters.iter().map(|cluster| (cluster, cluster.weight.unwrap_or(0)));
            let weighted =
                by_weight(weights, dice).ok_or_else(|| Refusal::unsupported("weighted clusters without any weight"))?;
            refuse_if(!weighted.cluster_header.is_empty(), "weighted clusters by header")?;
            neutral_per_route(&weighted.typed_per_filter_config)?;
            let subset = weighted.metadata_match.as_ref().or(action.metadata_match.as_ref());
            Ok(Chosen { cluster: weighted.name.clone(), subset, weighted: Some(weighted) })
        }
        Some(ClusterSpecifier::ClusterSpecifierPlugin(_) | ClusterSpecifier::InlineClusterSpecifierPlugin(_))
        | None => Err(Refusal::unsupported("a route without a named cluster")),
    }
}

/// A header may set the random number.
fn random(clusters: &WeightedCluster, request: &Request, dice: u64) -> Result<u64, Refusal> {
    match &clusters.random_value_specifier {
        None | Some(RandomValueSpecifier::UseHashPolicy(false)) => Ok(dice),
        Some(RandomValueSpecifier::HeaderName(name)) => {
            Ok(request.value(name)?.and_then(|value| value.parse().ok()).unwrap_or(dice))
        }
        Some(RandomValueSpecifier::UseHashPolicy(true)) => Err(Refusal::unsupported("weights by hash")),
    }
}

fn rewritten(action: &RouteAction, matched: &RouteMatch, request: &Request) -> Result<String, Refusal> {
    let other = action.path_rewrite_policy.is_some() || !action.path_rewrite.is_empty();
    refuse_if(other, "rewrites by a policy or a format")?;
    let path = match (&action.regex_rewrite, action.prefix_rewrite.as_str()) {
        (Some(rewrite), _) => strings::substitute(rewrite, request.path_without_query())?,
        (None, "") => request.path_without_query().to_owned(),
        (None, prefix) => replace_prefix(matched, request, prefix)?,
    };
    Ok(path + request.query())
}

fn authority(
    action: &RouteAction,
    weighted: Option<&ClusterWeight>,
    request: &Request,
    headers: &Headers,
    endpoints: &[Endpoint],
) -> Result<String, Refusal> {
    if let Some(WeightedHost::HostRewriteLiteral(host)) = weighted.and_then(|one| one.host_rewrite_specifier.as_ref()) {
        return Ok(host.clone());
    }
    let own = || request.authority.clone();
    match &action.host_rewrite_specifier {
        None | Some(HostRewriteSpecifier::AutoHostRewrite(false)) => Ok(own()),
        Some(HostRewriteSpecifier::HostRewriteLiteral(host)) => Ok(host.clone()),
        Some(HostRewriteSpecifier::AutoHostRewrite(true)) => {
            let names = endpoints.first().map(|endpoint| endpoint.hostname.clone());
            let differ = endpoints.iter().any(|endpoint| Some(&endpoint.hostname) != names.as_ref());
            refuse_if(differ, "the host of endpoints with different names")?;
            Ok(names.filter(|name| !name.is_empty()).unwrap_or_else(own))
        }
        Some(HostRewriteSpecifier::HostRewriteHeader(name)) => {
            let header = headers.iter().find(|(other, _)| *other == name.to_ascii_lowercase());
            Ok(header.map_or_else(own, |(_, value)| value.clone()))
        }
        Some(HostRewriteSpecifier::HostRewritePathRegex(rewrite)) => {
            strings::substitute(rewrite, request.path_without_query())
        }
        Some(HostRewriteSpecifier::HostRewrite(_)) => Err(Refusal::unsupported("a host with a format")),
    }
}

fn with_old_host(action: &RouteAction, request: &Request, mut http: Http) -> Http {
    if action.append_x_forwarded_host && http.authority != request.authority {
        http.headers.push(("x-forwarded-host".to_owned(), request.authority.clone()));
    }
    http
}

#[derive(Clone, Copy)]
enum Side {
    Request,
    Response,
}

fn changes(
    routes: &RouteConfiguration,
    host: &VirtualHost,
    route: &Route,
    weighted: Option<&ClusterWeight>,
    side: Side,
) -> Result<Changes, Refusal> {
    let level = |request: (&[HeaderValueOption], &[String]), response: (&[HeaderValueOption], &[String])| {
        let (add, remove) = match side {
            Side::Request => request,
            Side::Response => response,
        };
        Level::read(add, remove)
    };
    let mut levels = Vec::new();
    if let Some(one) = weighted {
        levels.push(level(
            (&one.request_headers_to_add, &one.request_headers_to_remove),
            (&one.response_headers_to_add, &one.response_headers_to_remove),
        )?);
    }
    levels.push(level(
        (&route.request_headers_to_add, &route.request_headers_to_remove),
        (&route.response_headers_to_add, &route.response_headers_to_remove),
    )?);
    levels.push(level(
        (&host.request_headers_to_add, &host.request_headers_to_remove),
        (&host.response_headers_to_add, &host.response_headers_to_remove),
    )?);
    levels.push(level(
        (&routes.request_headers_to_add, &routes.request_headers_to_remove),
        (&routes.response_headers_to_add, &routes.response_headers_to_remove),
    )?);
    Ok(Changes::new(levels, routes.most_specific_header_mutations_wins))
}

/// Those of the most specific level that has any.
fn mirrors(routes: &RouteConfiguration, host: &VirtualHost, action: &RouteAction) -> Result<Vec<Mirror>, Refusal> {
    let levels = [&action.request_mirror_policies, &host.request_mirror_policies, &routes.request_mirror_policies];
    let policies = levels.into_iter().find(|policies| !policies.is_empty());
    let read = |policy: &RequestMirrorPolicy| {
        refuse_if(!policy.cluster_header.is_empty(), "mirrors by header")?;
        let share = policy.runtime_fraction.as_ref().and_then(|fraction| fraction.default_value);
        let per_million = share.map_or(Ok(1_000_000), per_million)?;
        Ok(Mirror { cluster: policy.cluster.clone(), per_million })
    };
    policies.into_iter().flatten().map(read).collect()
}

fn per_million(share: FractionalPercent) -> Result<u32, Refusal> {
    let factor = match DenominatorType::try_from(share.denominator) {
        Ok(DenominatorType::Hundred) => 10_000,
        Ok(DenominatorType::TenThousand) => 100,
        Ok(DenominatorType::Million) => 1,
        Err(_) => return Err(Refusal::unsupported(format!("the denominator {}", share.denominator))),
    };
    Ok(share.numerator.saturating_mul(factor))
}

fn body(source: Option<&DataSource>) -> Result<String, Refusal> {
    match source.and_then(|source| source.specifier.as_ref()) {
        None => Ok(String::new()),
        Some(data_source::Specifier::InlineString(text)) => Ok(text.clone()),
        Some(data_source::Specifier::InlineBytes(bytes)) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        Some(data_source::Specifier::Filename(_) | data_source::Specifier::EnvironmentVariable(_)) => {
            Err(Refusal::unsupported("answers from outside the configuration"))
        }
    }
}

fn to_duration(duration: &kodiak_envoy::google::protobuf::Duration) -> Duration {
    Duration::new(duration.seconds.try_into().unwrap_or(0), duration.nanos.try_into().unwrap_or(0))
}
