//! Messages to generate. Their dependencies are included.

pub(crate) const PROTOS: &[&str] = &[
    // Discovery requests and responses
    "envoy/service/discovery/v3/discovery.proto",
    "envoy/service/discovery/v3/ads.proto",
    "envoy/service/health/v3/hds.proto",
    "envoy/service/runtime/v3/rtds.proto",
    // Discovered resources
    "envoy/config/cluster/v3/cluster.proto",
    "envoy/config/endpoint/v3/endpoint.proto",
    "envoy/config/listener/v3/listener.proto",
    "envoy/config/route/v3/route.proto",
    "envoy/extensions/transport_sockets/tls/v3/tls.proto",
    "envoy/extensions/transport_sockets/tls/v3/secret.proto",
    "envoy/extensions/transport_sockets/tls/v3/tls_spiffe_validator_config.proto",
    // Clusters
    "envoy/extensions/transport_sockets/raw_buffer/v3/raw_buffer.proto",
    "envoy/extensions/upstreams/http/v3/http_protocol_options.proto",
    "envoy/extensions/health_check/event_sinks/file/v3/file.proto",
    // Listener filters
    "envoy/extensions/filters/listener/http_inspector/v3/http_inspector.proto",
    "envoy/extensions/filters/listener/original_dst/v3/original_dst.proto",
    "envoy/extensions/filters/listener/tls_inspector/v3/tls_inspector.proto",
    "envoy/extensions/filters/udp/dns_filter/v3/dns_filter.proto",
    // Network filters
    "envoy/extensions/filters/network/direct_response/v3/config.proto",
    "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.proto",
    "envoy/extensions/filters/network/local_ratelimit/v3/local_rate_limit.proto",
    "envoy/extensions/filters/network/rbac/v3/rbac.proto",
    "envoy/extensions/filters/network/set_filter_state/v3/set_filter_state.proto",
    "envoy/extensions/filters/network/tcp_proxy/v3/tcp_proxy.proto",
    // HTTP filters
    "envoy/extensions/compression/gzip/compressor/v3/gzip.proto",
    "envoy/extensions/filters/http/compressor/v3/compressor.proto",
    "envoy/extensions/filters/http/fault/v3/fault.proto",
    "envoy/extensions/filters/http/grpc_stats/v3/config.proto",
    "envoy/extensions/filters/http/health_check/v3/health_check.proto",
    "envoy/extensions/filters/http/local_ratelimit/v3/local_rate_limit.proto",
    "envoy/extensions/filters/http/lua/v3/lua.proto",
    "envoy/extensions/filters/http/rbac/v3/rbac.proto",
    "envoy/extensions/filters/http/router/v3/router.proto",
    "envoy/extensions/filters/http/set_filter_state/v3/set_filter_state.proto",
    // Matching
    "envoy/extensions/common/matching/v3/extension_matcher.proto",
    "envoy/extensions/filters/common/matcher/action/v3/skip_action.proto",
    "envoy/extensions/matching/common_inputs/network/v3/network_inputs.proto",
    "envoy/extensions/matching/common_inputs/ssl/v3/ssl_inputs.proto",
    "envoy/config/common/matcher/v3/matcher.proto",
    "envoy/config/rbac/v3/rbac.proto",
    "envoy/type/matcher/v3/http_inputs.proto",
    "xds/type/matcher/v3/matcher.proto",
    "xds/type/matcher/v3/string.proto",
    // Retries
    "envoy/extensions/retry/host/omit_host_metadata/v3/omit_host_metadata_config.proto",
    "envoy/extensions/retry/host/previous_hosts/v3/previous_hosts.proto",
    "envoy/extensions/retry/priority/previous_priorities/v3/previous_priorities_config.proto",
    // Access logs and traces
    "envoy/extensions/access_loggers/file/v3/file.proto",
    "envoy/extensions/access_loggers/filters/cel/v3/cel.proto",
    "envoy/extensions/access_loggers/open_telemetry/v3/logs_service.proto",
    "envoy/config/trace/v3/datadog.proto",
    "envoy/config/trace/v3/opentelemetry.proto",
    "envoy/config/trace/v3/zipkin.proto",
    // Bootstrap and admin
    "envoy/config/bootstrap/v3/bootstrap.proto",
    "envoy/config/grpc_credential/v3/file_based_metadata.proto",
    "envoy/extensions/regex_engines/v3/google_re2.proto",
    "envoy/extensions/resource_monitors/downstream_connections/v3/downstream_connections.proto",
    "envoy/extensions/resource_monitors/fixed_heap/v3/fixed_heap.proto",
    "envoy/admin/v3/config_dump.proto",
    "envoy/admin/v3/clusters.proto",
    // Well-known types
    "google/protobuf/any.proto",
    "google/protobuf/duration.proto",
    "google/protobuf/struct.proto",
    "google/protobuf/timestamp.proto",
    "google/protobuf/wrappers.proto",
];
