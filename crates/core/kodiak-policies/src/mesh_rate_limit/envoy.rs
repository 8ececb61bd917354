//! Local rate limits of inbounds: requests by route, connections by filter chain.

use kodiak_envoy::any;
use kodiak_envoy::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use kodiak_envoy::envoy::config::core::v3::{HeaderValueOption, RuntimeFractionalPercent};
use kodiak_envoy::envoy::config::listener::v3::{Filter, filter};
use kodiak_envoy::envoy::config::route::v3::Route;
use kodiak_envoy::envoy::extensions::filters::http::local_ratelimit::v3::LocalRateLimit as HttpRateLimit;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{HttpFilter, http_filter};
use kodiak_envoy::envoy::extensions::filters::network::local_ratelimit::v3::LocalRateLimit as TcpRateLimit;
use kodiak_envoy::envoy::r#type::v3::{FractionalPercent, HttpStatus, StatusCode, TokenBucket};

use super::{Conf, Local, LocalHttp, LocalTcp, Rate};
use crate::Entry;
use crate::callers::{self, Group, Keys};
use crate::convert::{duration, header_value};
use crate::header::HeaderAdditions;
use crate::order::{HttpStep, NetworkStep};
use crate::policy::for_everybody;
use crate::target::{Carrier, Chain, Http, Inbound};

const KEYS: Keys = Keys { spiffe_id: "kuma.mesh_rate_limit.match.spiffe_id", sni: "kuma.mesh_rate_limit.match.sni" };
const HTTP_FILTER: &str = "envoy.filters.http.local_ratelimit";
/// Kuma's names of the filter and of its statistics: dashboards depend on them.
const TCP_FILTER: &str = "envoy.extensions.filters.network.local_ratelimit.v3.LocalRateLimit";
const HTTP_STATS: &str = "rate_limit";
const TCP_STATS: &str = "tcp_rate_limit";

/// Every route has its own token bucket, so that callers with a limit of their own are counted separately.
pub(super) fn inbound(entries: &[Entry], inbound: &mut Inbound<'_>) {
    let everybody = for_everybody(entries);
    let local = everybody.read::<Conf>().local.unwrap_or_default();
    let groups = callers::groups(entries, &everybody);
    let limits_requests = request_limit(&local).is_some() || groups.iter().any(|group| of_group(group).is_some());
    for Chain { mtls, carrier } in &mut inbound.chains {
        let network_filters = match carrier {
            Carrier::Http(http) => {
                if limits_requests {
                    http.filters.push((HttpStep::RateLimit, http_filter()));
                    for route in &mut http.routes {
                        set(request_limit(&local), route);
                    }
                    if *mtls {
                        by_caller(&groups, http);
                        inbound.inspects_tls |= callers::need_sni(&groups);
                    }
                }
                &mut http.network_filters
            }
            Carrier::Tcp(tcp) => &mut tcp.filters,
        };
        network_filters.extend(connection_limit(&local).map(|filter| (NetworkStep::RateLimit, filter)));
    }
}

fn by_caller(groups: &[Group], http: &mut Http) {
    callers::add_routes(groups, KEYS, http, |group, route| set(of_group(group), route));
}

fn of_group(group: &Group) -> Option<HttpRateLimit> {
    request_limit(&group.conf.read::<Conf>().local?)
}

/// A route without a limit has no configuration: the filter itself does not limit.
fn set(limit: Option<HttpRateLimit>, route: &mut Route) {
    route.typed_per_filter_config.remove(HTTP_FILTER);
    route.typed_per_filter_config.extend(limit.map(|limit| (HTTP_FILTER.to_owned(), any(&limit))));
}

fn http_filter() -> HttpFilter {
    let config = HttpRateLimit { stat_prefix: HTTP_STATS.to_owned(), ..HttpRateLimit::default() };
    HttpFilter {
        name: HTTP_FILTER.to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(any(&config))),
        ..HttpFilter::default()
    }
}

fn request_limit(local: &Local) -> Option<HttpRateLimit> {
    let LocalHttp { disabled, request_rate, on_rate_limit } = local.http.as_ref()?;
    if *disabled == Some(true) {
        return None;
    }
    let (status, headers) = on_rate_limit.clone().map(|answer| (answer.status, answer.headers)).unwrap_or_default();
    Some(HttpRateLimit {
        stat_prefix: HTTP_STATS.to_owned(),
        token_bucket: Some(bucket(request_rate.as_ref()?)?),
        filter_enabled: Some(always("local_rate_limit_enabled")),
        filter_enforced: Some(always("local_rate_limit_enforced")),
        status: status.and_then(known_status),
        response_headers_to_add: response_headers(&headers.unwrap_or_default()),
        ..HttpRateLimit::default()
    })
}

fn connection_limit(local: &Local) -> Option<Filter> {
    let LocalTcp { disabled, connection_rate } = local.tcp.as_ref()?;
    if *disabled == Some(true) {
        return None;
    }
    let token_bucket = Some(bucket(connection_rate.as_ref()?)?);
    let config = TcpRateLimit { stat_prefix: TCP_STATS.to_owned(), token_bucket, ..TcpRateLimit::default() };
    Some(Filter { name: TCP_FILTER.to_owned(), config_type: Some(filter::ConfigType::TypedConfig(any(&config))) })
}

fn bucket(rate: &Rate) -> Option<TokenBucket> {
    let Rate { num, interval } = rate;
    Some(TokenBucket { max_tokens: *num, tokens_per_fill: Some(*num), fill_interval: Some(duration(*interval)?) })
}

/// `None` for a status that Envoy has no name for: it would reject the listener. Envoy then responds with 429.
fn known_status(status: u32) -> Option<HttpStatus> {
    let code = StatusCode::try_from(i32::try_from(status).ok()?).ok().filter(|code| *code != StatusCode::Empty)?;
    Some(HttpStatus { code: code.into() })
}

fn response_headers(HeaderAdditions { set, add }: &HeaderAdditions) -> Vec<HeaderValueOption> {
    let set = set.iter().flatten().map(|header| header_value(header, HeaderAppendAction::OverwriteIfExistsOrAdd));
    let add = add.iter().flatten().map(|header| header_value(header, HeaderAppendAction::AppendIfExistsOrAdd));
    set.chain(add).collect()
}

fn always(runtime_key: &str) -> RuntimeFractionalPercent {
    let default_value = Some(FractionalPercent { numerator: 100, ..FractionalPercent::default() });
    RuntimeFractionalPercent { default_value, runtime_key: runtime_key.to_owned() }
}

#[cfg(test)]
mod tests {
    use kodiak_envoy::envoy::config::route::v3::Route;
    use kodiak_envoy::unpack;

    use super::{HTTP_FILTER, HttpRateLimit, NetworkStep};
    use crate::mesh_rate_limit::RateLimits;
    use crate::samples::{as_http, as_tcp, check, from, http, inbound, route, rule, tcp};

    const FIVE: &str = "local: {http: {requestRate: {num: 5, interval: 10s}}}";
    const CALLER: &str = "[{spiffeID: {type: Exact, value: 'spiffe://default/web'}}]";

    fn limit(route: &Route) -> Option<HttpRateLimit> {
        route.typed_per_filter_config.get(HTTP_FILTER).map(|config| unpack(config).unwrap())
    }

    fn rate(route: &Route) -> Option<u32> {
        limit(route).map(|limit| limit.token_bucket.unwrap().max_tokens)
    }

    #[test]
    fn request_limit_is_set_on_each_route() {
        let answer = "local: {http: {onRateLimit: {status: 423, headers: {set: [{name: a, value: 1%}], add: [{name: b, value: c}]}}}}";
        let served = inbound(&RateLimits, &[from(FIVE), rule("[]", answer)], &http(vec![route("")]));
        for chain in &served.chains {
            let http = as_http(&chain.carrier);
            assert_eq!((http.filters.len(), http.routes.len(), http.network_filters.len()), (1, 1, 0));
            check(
                &limit(&http.routes[0]).unwrap(),
                "
                stat_prefix: rate_limit
                token_bucket: {max_tokens: 5, tokens_per_fill: 5, fill_interval: 10s}
                filter_enabled: {runtime_key: local_rate_limit_enabled, default_value: {numerator: 100}}
                filter_enforced: {runtime_key: local_rate_limit_enforced, default_value: {numerator: 100}}
                status: {code: Locked}
                response_headers_to_add:
                - {header: {key: a, value: '1%%'}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}
                - {header: {key: b, value: c}, append_action: APPEND_IF_EXISTS_OR_ADD}
                ",
            );
        }
    }

    #[test]
    fn status_that_envoy_would_reject_is_left_out() {
        let teapot = "local: {http: {requestRate: {num: 5, interval: 10s}, onRateLimit: {status: 418}}}";
        let served = inbound(&RateLimits, &[from(teapot)], &http(vec![route("")]));
        assert_eq!(limit(&as_http(&served.chains[0].carrier).routes[0]).unwrap().status, None);
    }

    #[test]
    fn matched_callers_have_their_own_limit_with_mtls() {
        for (own, expected) in [
            ("local: {http: {requestRate: {num: 1, interval: 1s}}}", Some(1)),
            ("local: {http: {disabled: true}}", None),
            ("local: {http: {onRateLimit: {status: 503}}}", Some(5)),
        ] {
            let served = inbound(&RateLimits, &[from(FIVE), rule(CALLER, own)], &http(vec![route("")]));
            let rates = |n: usize| as_http(&served.chains[n].carrier).routes.iter().map(rate).collect::<Vec<_>>();
            assert_eq!((rates(0), rates(1)), (vec![Some(5)], vec![expected, Some(5)]), "{own}");
        }
    }

    #[test]
    fn connection_limit_applies_to_all_protocols() {
        let entries = [from("local: {tcp: {connectionRate: {num: 100, interval: 1s}}}")];
        let served = inbound(&RateLimits, &entries, &tcp());
        let filters = &as_tcp(&served.chains[1].carrier).filters;
        assert_eq!(filters.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [NetworkStep::RateLimit]);
        let served = inbound(&RateLimits, &entries, &http(vec![route("")]));
        let http = as_http(&served.chains[1].carrier);
        assert_eq!((http.network_filters.len(), http.filters.len()), (1, 0));
    }

    #[test]
    fn nothing_changes_without_a_limit() {
        for text in
            ["{}", "local: {http: {disabled: true, requestRate: {num: 5, interval: 10s}}, tcp: {disabled: true}}"]
        {
            let carrier = http(vec![route("")]);
            let served = inbound(&RateLimits, &[from(text), rule(CALLER, text)], &carrier);
            assert!(served.chains.iter().all(|chain| chain.carrier == carrier), "{text}");
        }
    }
}
