//! Type URLs of the messages that occur in an `Any`: resources, filters and their settings.

use bytes::Bytes;
use prost::{DecodeError, Message, Name};

use crate::google::protobuf::Any;
use crate::{envoy, google};

/// A message that is packed into an `Any`, or discovered under its own type.
pub trait TypeUrl: Message + Name + Default {
    const TYPE_URL: &'static str;
}

#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error("expected {expected}, found {found:?}")]
    OtherType { expected: &'static str, found: String },
    #[error("the bytes are not a valid {expected}")]
    Bytes { expected: &'static str, source: DecodeError },
}

pub fn any<M: TypeUrl>(message: &M) -> Any {
    Any { type_url: M::TYPE_URL.to_owned(), value: Bytes::from(message.encode_to_vec()) }
}

pub fn unpack<M: TypeUrl>(any: &Any) -> Result<M, UnpackError> {
    let expected = message_name(M::TYPE_URL);
    if message_name(&any.type_url) != expected {
        return Err(UnpackError::OtherType { expected, found: any.type_url.clone() });
    }
    M::decode(any.value.clone()).map_err(|source| UnpackError::Bytes { expected, source })
}

/// All type URLs, in the order of the table.
pub fn type_urls() -> impl Iterator<Item = &'static str> {
    LISTED.iter().map(|listed| listed.type_url)
}

/// The part after the last `/`, which identifies the message.
pub(crate) fn message_name(type_url: &str) -> &str {
    type_url.rsplit('/').next().unwrap_or(type_url)
}

/// A row of the table, for lookups by type URL.
pub(crate) struct Listed {
    pub(crate) type_url: &'static str,
    /// Re-encodes the message by its Rust type.
    pub(crate) encode_again: fn(&[u8]) -> Result<Vec<u8>, DecodeError>,
}

impl Listed {
    pub(crate) fn find(type_url: &str) -> Option<&'static Listed> {
        LISTED.iter().find(|listed| message_name(listed.type_url) == message_name(type_url))
    }
}

fn encode_again<M: Message + Default>(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    M::decode(bytes).map(|message| message.encode_to_vec())
}

macro_rules! type_urls {
    ($($message:ty = $name:literal,)*) => {
        $(impl TypeUrl for $message {
            const TYPE_URL: &'static str = concat!("type.googleapis.com/", $name);
        })*

        const LISTED: &[Listed] = &[
            $(Listed { type_url: <$message>::TYPE_URL, encode_again: encode_again::<$message> },)*
        ];

        /// Name in each row, and prost's name of its Rust type.
        #[cfg(test)]
        fn both() -> Vec<(&'static str, String)> {
            vec![$((<$message>::TYPE_URL, <$message>::type_url()),)*]
        }
    };
}

// A message that is not in this table cannot be packed in Rust. In JSON, each message of Envoy's API can be in an `Any`.
type_urls! {
    // Resources
    envoy::config::listener::v3::Listener = "envoy.config.listener.v3.Listener",
    envoy::config::route::v3::RouteConfiguration = "envoy.config.route.v3.RouteConfiguration",
    envoy::config::route::v3::ScopedRouteConfiguration = "envoy.config.route.v3.ScopedRouteConfiguration",
    envoy::config::route::v3::VirtualHost = "envoy.config.route.v3.VirtualHost",
    envoy::config::cluster::v3::Cluster = "envoy.config.cluster.v3.Cluster",
    envoy::config::endpoint::v3::ClusterLoadAssignment = "envoy.config.endpoint.v3.ClusterLoadAssignment",
    envoy::extensions::transport_sockets::tls::v3::Secret = "envoy.extensions.transport_sockets.tls.v3.Secret",
    envoy::service::runtime::v3::Runtime = "envoy.service.runtime.v3.Runtime",
    envoy::config::core::v3::TypedExtensionConfig = "envoy.config.core.v3.TypedExtensionConfig",
    // Clusters
    envoy::extensions::upstreams::http::v3::HttpProtocolOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
    envoy::extensions::transport_sockets::raw_buffer::v3::RawBuffer = "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer",
    envoy::extensions::transport_sockets::tls::v3::DownstreamTlsContext = "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
    envoy::extensions::transport_sockets::tls::v3::UpstreamTlsContext = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
    envoy::extensions::transport_sockets::tls::v3::SpiffeCertValidatorConfig = "envoy.extensions.transport_sockets.tls.v3.SPIFFECertValidatorConfig",
    envoy::extensions::health_check::event_sinks::file::v3::HealthCheckEventFileSink = "envoy.extensions.health_check.event_sinks.file.v3.HealthCheckEventFileSink",
    // Listener filters
    envoy::extensions::filters::listener::http_inspector::v3::HttpInspector = "envoy.extensions.filters.listener.http_inspector.v3.HttpInspector",
    envoy::extensions::filters::listener::original_dst::v3::OriginalDst = "envoy.extensions.filters.listener.original_dst.v3.OriginalDst",
    envoy::extensions::filters::listener::tls_inspector::v3::TlsInspector = "envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector",
    envoy::extensions::filters::udp::dns_filter::v3::DnsFilterConfig = "envoy.extensions.filters.udp.dns_filter.v3.DnsFilterConfig",
    // Network filters
    envoy::extensions::filters::network::direct_response::v3::Config = "envoy.extensions.filters.network.direct_response.v3.Config",
    envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    envoy::extensions::filters::network::local_ratelimit::v3::LocalRateLimit = "envoy.extensions.filters.network.local_ratelimit.v3.LocalRateLimit",
    envoy::extensions::filters::network::rbac::v3::Rbac = "envoy.extensions.filters.network.rbac.v3.RBAC",
    envoy::extensions::filters::network::set_filter_state::v3::Config = "envoy.extensions.filters.network.set_filter_state.v3.Config",
    envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy = "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
    // HTTP filters
    envoy::extensions::compression::gzip::compressor::v3::Gzip = "envoy.extensions.compression.gzip.compressor.v3.Gzip",
    envoy::extensions::filters::http::compressor::v3::Compressor = "envoy.extensions.filters.http.compressor.v3.Compressor",
    envoy::extensions::filters::http::compressor::v3::CompressorPerRoute = "envoy.extensions.filters.http.compressor.v3.CompressorPerRoute",
    envoy::extensions::filters::http::fault::v3::HttpFault = "envoy.extensions.filters.http.fault.v3.HTTPFault",
    envoy::extensions::filters::http::grpc_stats::v3::FilterConfig = "envoy.extensions.filters.http.grpc_stats.v3.FilterConfig",
    envoy::extensions::filters::http::health_check::v3::HealthCheck = "envoy.extensions.filters.http.health_check.v3.HealthCheck",
    envoy::extensions::filters::http::local_ratelimit::v3::LocalRateLimit = "envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
    envoy::extensions::filters::http::lua::v3::Lua = "envoy.extensions.filters.http.lua.v3.Lua",
    envoy::extensions::filters::http::lua::v3::LuaPerRoute = "envoy.extensions.filters.http.lua.v3.LuaPerRoute",
    envoy::extensions::filters::http::rbac::v3::Rbac = "envoy.extensions.filters.http.rbac.v3.RBAC",
    envoy::extensions::filters::http::rbac::v3::RbacPerRoute = "envoy.extensions.filters.http.rbac.v3.RBACPerRoute",
    envoy::extensions::filters::http::router::v3::Router = "envoy.extensions.filters.http.router.v3.Router",
    envoy::extensions::filters::http::set_filter_state::v3::Config = "envoy.extensions.filters.http.set_filter_state.v3.Config",
    envoy::config::route::v3::FilterConfig = "envoy.config.route.v3.FilterConfig",
    // Matching
    envoy::extensions::common::matching::v3::ExtensionWithMatcher = "envoy.extensions.common.matching.v3.ExtensionWithMatcher",
    envoy::extensions::common::matching::v3::ExtensionWithMatcherPerRoute = "envoy.extensions.common.matching.v3.ExtensionWithMatcherPerRoute",
    envoy::extensions::filters::common::matcher::action::v3::SkipFilter = "envoy.extensions.filters.common.matcher.action.v3.SkipFilter",
    envoy::extensions::matching::common_inputs::network::v3::ApplicationProtocolInput = "envoy.extensions.matching.common_inputs.network.v3.ApplicationProtocolInput",
    envoy::extensions::matching::common_inputs::network::v3::DestinationIpInput = "envoy.extensions.matching.common_inputs.network.v3.DestinationIPInput",
    envoy::extensions::matching::common_inputs::network::v3::DestinationPortInput = "envoy.extensions.matching.common_inputs.network.v3.DestinationPortInput",
    envoy::extensions::matching::common_inputs::network::v3::ServerNameInput = "envoy.extensions.matching.common_inputs.network.v3.ServerNameInput",
    envoy::extensions::matching::common_inputs::network::v3::SourceIpInput = "envoy.extensions.matching.common_inputs.network.v3.SourceIPInput",
    envoy::extensions::matching::common_inputs::network::v3::TransportProtocolInput = "envoy.extensions.matching.common_inputs.network.v3.TransportProtocolInput",
    envoy::extensions::matching::common_inputs::ssl::v3::DnsSanInput = "envoy.extensions.matching.common_inputs.ssl.v3.DnsSanInput",
    envoy::extensions::matching::common_inputs::ssl::v3::SubjectInput = "envoy.extensions.matching.common_inputs.ssl.v3.SubjectInput",
    envoy::extensions::matching::common_inputs::ssl::v3::UriSanInput = "envoy.extensions.matching.common_inputs.ssl.v3.UriSanInput",
    envoy::config::rbac::v3::Action = "envoy.config.rbac.v3.Action",
    envoy::r#type::matcher::v3::HttpRequestHeaderMatchInput = "envoy.type.matcher.v3.HttpRequestHeaderMatchInput",
    // Retries
    envoy::extensions::retry::host::omit_host_metadata::v3::OmitHostMetadataConfig = "envoy.extensions.retry.host.omit_host_metadata.v3.OmitHostMetadataConfig",
    envoy::extensions::retry::host::previous_hosts::v3::PreviousHostsPredicate = "envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate",
    envoy::extensions::retry::priority::previous_priorities::v3::PreviousPrioritiesConfig = "envoy.extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig",
    // Access logs and traces
    envoy::extensions::access_loggers::file::v3::FileAccessLog = "envoy.extensions.access_loggers.file.v3.FileAccessLog",
    envoy::extensions::access_loggers::filters::cel::v3::ExpressionFilter = "envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter",
    envoy::extensions::access_loggers::open_telemetry::v3::OpenTelemetryAccessLogConfig = "envoy.extensions.access_loggers.open_telemetry.v3.OpenTelemetryAccessLogConfig",
    envoy::extensions::access_loggers::stream::v3::StderrAccessLog = "envoy.extensions.access_loggers.stream.v3.StderrAccessLog",
    envoy::config::trace::v3::DatadogConfig = "envoy.config.trace.v3.DatadogConfig",
    envoy::config::trace::v3::OpenTelemetryConfig = "envoy.config.trace.v3.OpenTelemetryConfig",
    envoy::config::trace::v3::ZipkinConfig = "envoy.config.trace.v3.ZipkinConfig",
    // Bootstrap and admin
    envoy::config::bootstrap::v3::Bootstrap = "envoy.config.bootstrap.v3.Bootstrap",
    envoy::config::grpc_credential::v3::FileBasedMetadataConfig = "envoy.config.grpc_credential.v3.FileBasedMetadataConfig",
    envoy::extensions::regex_engines::v3::GoogleRe2 = "envoy.extensions.regex_engines.v3.GoogleRE2",
    envoy::extensions::resource_monitors::downstream_connections::v3::DownstreamConnectionsConfig = "envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
    envoy::extensions::resource_monitors::fixed_heap::v3::FixedHeapConfig = "envoy.extensions.resource_monitors.fixed_heap.v3.FixedHeapConfig",
    envoy::admin::v3::BootstrapConfigDump = "envoy.admin.v3.BootstrapConfigDump",
    envoy::admin::v3::ClustersConfigDump = "envoy.admin.v3.ClustersConfigDump",
    envoy::admin::v3::EcdsConfigDump = "envoy.admin.v3.EcdsConfigDump",
    envoy::admin::v3::EndpointsConfigDump = "envoy.admin.v3.EndpointsConfigDump",
    envoy::admin::v3::ListenersConfigDump = "envoy.admin.v3.ListenersConfigDump",
    envoy::admin::v3::RoutesConfigDump = "envoy.admin.v3.RoutesConfigDump",
    envoy::admin::v3::ScopedRoutesConfigDump = "envoy.admin.v3.ScopedRoutesConfigDump",
    envoy::admin::v3::SecretsConfigDump = "envoy.admin.v3.SecretsConfigDump",
    // Well-known types
    google::protobuf::Duration = "google.protobuf.Duration",
    google::protobuf::Struct = "google.protobuf.Struct",
    google::protobuf::Value = "google.protobuf.Value",
    bool = "google.protobuf.BoolValue",
    String = "google.protobuf.StringValue",
    u32 = "google.protobuf.UInt32Value",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_names_the_message_of_its_type() {
        for (row, prost) in both() {
            assert_eq!(row, prost);
        }
    }

    #[test]
    fn rejects_unpacking_another_type() {
        let packed = any(&envoy::config::cluster::v3::Cluster::default());
        assert!(unpack::<envoy::config::cluster::v3::Cluster>(&packed).is_ok());
        let error = unpack::<envoy::config::listener::v3::Listener>(&packed).unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected envoy.config.listener.v3.Listener, found \
             \"type.googleapis.com/envoy.config.cluster.v3.Cluster\""
        );
    }
}
