//! Secrets that a TLS context references.

use kodiak_envoy::envoy::config::core::v3::{TransportSocket, transport_socket};
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::{
    CommonTlsContext, DownstreamTlsContext, SdsSecretConfig, UpstreamTlsContext,
};
use kodiak_envoy::{TypeUrl as _, unpack};
use kodiak_xds_stream::TypeUrl;

use super::{Links, is_over_ads};

pub(super) fn upstream(socket: &TransportSocket, links: &mut Links) {
    let Some(transport_socket::ConfigType::TypedConfig(config)) = &socket.config_type else { return };
    if config.type_url == UpstreamTlsContext::TYPE_URL {
        match unpack::<UpstreamTlsContext>(config) {
            Ok(tls) => common(tls.common_tls_context.as_ref(), links),
            Err(error) => links.fault(error.to_string()),
        }
    }
}

pub(super) fn downstream(socket: &TransportSocket, links: &mut Links) {
    let Some(transport_socket::ConfigType::TypedConfig(config)) = &socket.config_type else { return };
    if config.type_url == DownstreamTlsContext::TYPE_URL {
        match unpack::<DownstreamTlsContext>(config) {
            Ok(tls) => common(tls.common_tls_context.as_ref(), links),
            Err(error) => links.fault(error.to_string()),
        }
    }
}

fn common(context: Option<&CommonTlsContext>, links: &mut Links) {
    let Some(context) = context else { return };
    let validation = match &context.validation_context_type {
        Some(ValidationContextType::CombinedValidationContext(both)) => {
            both.validation_context_sds_secret_config.as_ref()
        }
        Some(ValidationContextType::ValidationContextSdsSecretConfig(secret)) => Some(secret),
        _ => None,
    };
    for secret in context.tls_certificate_sds_secret_configs.iter().chain(validation) {
        let SdsSecretConfig { name, sds_config } = secret;
        // A secret without a config source is static, in the bootstrap.
        if is_over_ads(sds_config.as_ref()) {
            links.need(TypeUrl::Secret, name);
        }
    }
}
