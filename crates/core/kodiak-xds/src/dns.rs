//! DNS records of the mesh: Envoy answers from them, or serves them to `kodiak dp`.

use std::time::Duration;

use kodiak_envoy::duration;
use kodiak_envoy::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use kodiak_envoy::envoy::config::core::v3::{HeaderValue, HeaderValueOption, TrafficDirection};
use kodiak_envoy::envoy::config::listener::v3::{FilterChain, Listener};
use kodiak_envoy::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use kodiak_envoy::envoy::config::route::v3::{
    DirectResponseAction, HeaderMatcher, Route, RouteConfiguration, RouteMatch, route,
};
use kodiak_envoy::envoy::data::dns::v3::DnsTable;
use kodiak_envoy::envoy::data::dns::v3::dns_table::{
    AddressList, DnsEndpoint, DnsVirtualDomain, dns_endpoint::EndpointConfig,
};
use kodiak_envoy::envoy::extensions::filters::udp::dns_filter::v3::DnsFilterConfig;
use kodiak_envoy::envoy::extensions::filters::udp::dns_filter::v3::dns_filter_config::{
    ServerContextConfig, server_context_config::ConfigSource,
};
use kodiak_envoy::envoy::r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern};
use serde_json::json;

use crate::address::{self, LOOPBACK};
use crate::input::{Dns, DnsRecord, DnsServer};
use crate::{filters, names, routes, tls};

/// Path at which `kodiak dp` reads the records.
pub const PATH: &str = "/dns";
const TTL: Duration = Duration::from_secs(30);

pub fn listener(dns: &Dns) -> Listener {
    match &dns.server {
        DnsServer::Runner { socket } => for_dp(socket, &table(dns)),
        DnsServer::Envoy { port } => for_workload(*port, dns),
    }
}

/// The records in the JSON format that `kodiak dp` reads.
pub fn table(dns: &Dns) -> String {
    let records: Vec<_> =
        dns.records.iter().map(|record| json!({ "name": &*record.name, "ips": addresses(dns, record) })).collect();
    json!({ "records": records, "ttl": TTL.as_secs(), "extraLabels": {} }).to_string()
}

fn addresses(dns: &Dns, record: &DnsRecord) -> Vec<String> {
    let mut all = vec![record.address.to_string()];
    if dns.ipv6 {
        let [a, b, c, d] = record.address.octets();
        // Not the notation of `Ipv6Addr`: Kuma's resolver accepts only this one.
        all.push(format!("::ffff:{:x}:{:x}", u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])));
    }
    all
}

/// Envoy responds with all records, or with 304 when the ETag matches.
fn for_dp(socket: &str, table: &str) -> Listener {
    let etag = names::etag(table);
    let size = u32::try_from(table.len()).unwrap_or(u32::MAX);
    let routes = RouteConfiguration {
        max_direct_response_body_size_bytes: Some(size),
        ..routes::all_domains(
            names::DYNAMIC_CONFIG.to_owned(),
            names::DYNAMIC_CONFIG,
            vec![same(&etag), whole(&etag, table)],
        )
    };
    let http = filters::own_http(names::DYNAMIC_CONFIG, routes);
    Listener {
        name: names::DYNAMIC_CONFIG.to_owned(),
        address: Some(address::private_pipe(socket)),
        traffic_direction: TrafficDirection::Inbound.into(),
        filter_chains: vec![FilterChain { filters: vec![filters::http_filter(&http)], ..FilterChain::default() }],
        ..Listener::default()
    }
}

fn same(etag: &str) -> Route {
    let exact = MatchPattern::Exact(etag.to_owned());
    let known = HeaderMatcher {
        name: "if-none-match".to_owned(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(StringMatcher {
            match_pattern: Some(exact),
            ..StringMatcher::default()
        })),
        ..HeaderMatcher::default()
    };
    let matched = RouteMatch { headers: vec![known], ..routes::prefix(PATH) };
    answer(matched, etag, DirectResponseAction { status: 304, ..DirectResponseAction::default() })
}

fn whole(etag: &str, table: &str) -> Route {
    let body = DirectResponseAction { status: 200, body: Some(tls::inline(table)), ..DirectResponseAction::default() };
    answer(routes::prefix(PATH), etag, body)
}

fn answer(matched: RouteMatch, etag: &str, response: DirectResponseAction) -> Route {
    let etag = HeaderValue { key: "etag".to_owned(), value: etag.to_owned(), ..HeaderValue::default() };
    Route {
        response_headers_to_add: vec![HeaderValueOption {
            header: Some(etag),
            append_action: HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
            ..HeaderValueOption::default()
        }],
        ..routes::route(matched, route::Action::DirectResponse(response))
    }
}

fn for_workload(port: u32, dns: &Dns) -> Listener {
    let table = DnsTable {
        virtual_domains: dns.records.iter().map(|record| domain(dns, record)).collect(),
        ..DnsTable::default()
    };
    let filter = DnsFilterConfig {
        stat_prefix: names::stat_name(names::DNS),
        server_config: Some(ServerContextConfig { config_source: Some(ConfigSource::InlineDnsTable(table)) }),
        case_insensitive: true,
        ..DnsFilterConfig::default()
    };
    Listener {
        name: names::DNS.to_owned(),
        address: Some(address::udp(LOOPBACK, port)),
        listener_filters: vec![filters::listener_filter("envoy.filters.udp.dns_filter", &filter)],
        ..Listener::default()
    }
}

fn domain(dns: &Dns, record: &DnsRecord) -> DnsVirtualDomain {
    let list = EndpointConfig::AddressList(AddressList { address: addresses(dns, record) });
    DnsVirtualDomain {
        name: record.name.to_string(),
        endpoint: Some(DnsEndpoint { endpoint_config: Some(list) }),
        answer_ttl: Some(duration(TTL)),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::testing::{at, check};

    fn dns(server: DnsServer, ipv6: bool) -> Dns {
        let record = DnsRecord { name: "backend.mesh".into(), address: Ipv4Addr::new(240, 0, 0, 1) };
        Dns { records: [record].into(), server, ipv6 }
    }

    #[test]
    fn dp_gets_the_records_or_not_modified() {
        let dns = dns(DnsServer::Runner { socket: "/tmp/config.sock".to_owned() }, true);
        let expected =
            r#"{"records":[{"name":"backend.mesh","ips":["240.0.0.1","::ffff:f000:1"]}],"ttl":30,"extraLabels":{}}"#;
        assert_eq!(table(&dns), expected);
        let listener = listener(&dns);
        assert_eq!(at(&listener, "/address/pipe/path"), "/tmp/config.sock");
        let config = at(&listener, "/filterChains/0/filters/0/typedConfig/routeConfig");
        assert_eq!(config["maxDirectResponseBodySizeBytes"], expected.len());
        let routes = &config["virtualHosts"][0]["routes"];
        let etag = names::etag(expected);
        assert_eq!(routes[0]["match"]["headers"][0]["stringMatch"]["exact"], etag);
        assert_eq!(routes[0]["directResponse"], json!({"status": 304}));
        assert_eq!(routes[1]["directResponse"]["status"], 200);
        assert_eq!(routes[1]["responseHeadersToAdd"][0]["header"], json!({"key": "etag", "value": etag}));
    }

    #[test]
    fn envoy_answers_over_udp() {
        check(
            &listener(&dns(DnsServer::Envoy { port: 15053 }, false)),
            r#"
            name: kuma:dns
            address: {socket_address: {protocol: UDP, address: 127.0.0.1, port_value: 15053}}
            listener_filters:
            - name: envoy.filters.udp.dns_filter
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.udp.dns_filter.v3.DnsFilterConfig
                stat_prefix: kuma_dns
                case_insensitive: true
                server_config:
                  inline_dns_table:
                    virtual_domains:
                    - {name: backend.mesh, answer_ttl: 30s, endpoint: {address_list: {address: [240.0.0.1]}}}
            "#,
        );
    }
}
