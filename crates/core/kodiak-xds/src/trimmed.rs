//! Calls to virtual addresses without a listener: the proxy answers them itself, and says why.
//!
//! The hostname of a trimmed destination still resolves, so that a caller is told that it may not call it instead of
//! that it does not exist. One filter chain is enough for all of them.

use std::sync::Arc;
use std::time::Duration;

use kodiak_envoy::duration;
use kodiak_envoy::envoy::config::accesslog::v3::comparison_filter::Op;
use kodiak_envoy::envoy::config::accesslog::v3::{
    AccessLogFilter, ComparisonFilter, StatusCodeFilter, access_log_filter::FilterSpecifier,
};
use kodiak_envoy::envoy::config::core::v3::data_source::Specifier;
use kodiak_envoy::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use kodiak_envoy::envoy::config::core::v3::substitution_format_string::Format;
use kodiak_envoy::envoy::config::core::v3::{
    DataSource, HeaderValue, HeaderValueOption, Http1ProtocolOptions, HttpProtocolOptions, RuntimeUInt32,
    SubstitutionFormatString,
};
use kodiak_envoy::envoy::config::listener::v3::{FilterChain, FilterChainMatch};
use kodiak_envoy::envoy::config::route::v3::{DirectResponseAction, route};
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::StripPortMode;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, LocalReplyConfig, ResponseMapper,
};
use kodiak_model::Cidr;

use crate::{address, filters, names, routes};

/// Response header that distinguishes this 403 from one of the application or of the server's proxy.
pub const REASON_HEADER: &str = "x-kodiak-reason";
pub const REASON: &str = "unreachable";
const STATUS: u32 = 403;
/// The mesh of commands without `-m`.
const DEFAULT_MESH: &str = "default";
/// Ends connections of clients that wait for the server to speak first.
const SILENCE: Duration = Duration::from_secs(2);

/// A proxy that answers calls to destinations that it lost.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Client {
    /// Name of its Dataplane.
    pub name: Arc<str>,
    /// Virtual addresses.
    pub ranges: Arc<[Cidr]>,
}

/// Also the gRPC message. A connection that is not HTTP gets it too, with `-` as the host.
pub(crate) fn explanation(mesh: &str, client: &str) -> String {
    let mesh = if mesh == DEFAULT_MESH { String::new() } else { format!("-m {} ", literal(mesh)) };
    format!(
        "This proxy has no outbound for %DOWNSTREAM_LOCAL_ADDRESS% (host: %REQ(:AUTHORITY)%): no MeshTrafficPermission \
         allows this client to call it, or it has no such port. To see which, run: kodiak why {mesh}{} %REQ(:AUTHORITY)%",
        literal(client)
    )
}

/// A name within a format string of Envoy.
fn literal(name: &str) -> String {
    name.replace('%', "%%")
}

/// Answers connections to these addresses that no listener has.
pub(crate) fn chain(ranges: &[Cidr], explanation: &str) -> FilterChain {
    let range = |range: &Cidr| address::range(&range.first().to_string(), range.length().into());
    let matched = FilterChainMatch { prefix_ranges: ranges.iter().map(range).collect(), ..FilterChainMatch::default() };
    FilterChain {
        filter_chain_match: Some(matched),
        filters: vec![filters::http_filter(&manager(explanation))],
        ..FilterChain::default()
    }
}

fn manager(explanation: &str) -> HttpConnectionManager {
    let response = DirectResponseAction { status: STATUS, ..DirectResponseAction::default() };
    let route = routes::route(routes::prefix("/"), route::Action::DirectResponse(response));
    let routes = routes::all_domains(names::TRIMMED.to_owned(), names::TRIMMED, vec![route]);
    // A string and not bytes, so that configuration dumps show it.
    let body = DataSource { specifier: Some(Specifier::InlineString(explanation.to_owned())), ..DataSource::default() };
    HttpConnectionManager {
        common_http_protocol_options: Some(HttpProtocolOptions {
            idle_timeout: Some(duration(SILENCE)),
            // A connection that stays open would not see that the destination became reachable.
            max_requests_per_connection: Some(1),
            ..HttpProtocolOptions::default()
        }),
        request_headers_timeout: Some(duration(SILENCE)),
        http_protocol_options: Some(Http1ProtocolOptions { accept_http_10: true, ..Http1ProtocolOptions::default() }),
        // `kodiak why` takes hostnames.
        strip_port_mode: Some(StripPortMode::StripAnyHostPort(true)),
        local_reply_config: Some(LocalReplyConfig {
            mappers: vec![every_reply()],
            body_format: Some(SubstitutionFormatString {
                format: Some(Format::TextFormatSource(body)),
                ..SubstitutionFormatString::default()
            }),
        }),
        ..filters::own_http(names::TRIMMED, routes)
    }
}

/// Envoy itself replies to what has no route (CONNECT, upgrades), and to what is not HTTP. They get the same answer.
fn every_reply() -> ResponseMapper {
    let errors = ComparisonFilter {
        op: Op::Ge.into(),
        value: Some(RuntimeUInt32 { default_value: 400, runtime_key: "kodiak.trimmed.status".to_owned() }),
    };
    let reason = HeaderValue { key: REASON_HEADER.to_owned(), value: REASON.to_owned(), ..HeaderValue::default() };
    ResponseMapper {
        filter: Some(AccessLogFilter {
            filter_specifier: Some(FilterSpecifier::StatusCodeFilter(StatusCodeFilter { comparison: Some(errors) })),
        }),
        status_code: Some(STATUS),
        headers_to_add: vec![HeaderValueOption {
            header: Some(reason),
            append_action: HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
            ..HeaderValueOption::default()
        }],
        ..ResponseMapper::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check;

    #[test]
    fn explanation_names_the_client_and_its_mesh() {
        let command = |mesh, client| explanation(mesh, client).split_once("run: ").unwrap().1.to_owned();
        assert_eq!(command("default", "web-1"), "kodiak why web-1 %REQ(:AUTHORITY)%");
        assert_eq!(command("shop", "100%"), "kodiak why -m shop 100%% %REQ(:AUTHORITY)%");
    }

    #[test]
    fn every_request_to_a_virtual_address_gets_403_with_the_reason() {
        let ranges: Vec<Cidr> = ["240.0.0.0/4", "10.7.0.0/16"].map(|range| range.parse().unwrap()).into();
        check(
            &chain(&ranges, &explanation("default", "web-1")),
            r#"
            filter_chain_match:
              prefix_ranges: [{address_prefix: 240.0.0.0, prefix_len: 4}, {address_prefix: 10.7.0.0, prefix_len: 16}]
            filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: outbound_trimmed
                common_http_protocol_options: {idle_timeout: 2s, max_requests_per_connection: 1}
                http_protocol_options: {accept_http_10: true}
                request_headers_timeout: 2s
                strip_any_host_port: true
                internal_address_config: {cidr_ranges: [{address_prefix: 127.0.0.1, prefix_len: 32}]}
                local_reply_config:
                  mappers:
                  - filter:
                      status_code_filter:
                        comparison: {op: GE, value: {default_value: 400, runtime_key: kodiak.trimmed.status}}
                    status_code: 403
                    headers_to_add:
                    - {header: {key: x-kodiak-reason, value: unreachable}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}
                  body_format:
                    text_format_source:
                      inline_string: "This proxy has no outbound for %DOWNSTREAM_LOCAL_ADDRESS% (host: %REQ(:AUTHORITY)%): no MeshTrafficPermission allows this client to call it, or it has no such port. To see which, run: kodiak why web-1 %REQ(:AUTHORITY)%"
                route_config:
                  name: outbound:trimmed
                  validate_clusters: false
                  virtual_hosts:
                  - name: outbound:trimmed
                    domains: ["*"]
                    routes: [{match: {prefix: /}, direct_response: {status: 403}}]
                http_filters:
                - name: envoy.filters.http.router
                  typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
            "#,
        );
    }
}
