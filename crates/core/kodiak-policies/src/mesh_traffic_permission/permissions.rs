//! What is in force at one inbound.

use kodiak_envoy::any;
use kodiak_envoy::envoy::config::{listener::v3::Filter, listener::v3::filter, rbac::v3 as rules};
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{HttpFilter, http_filter};
use kodiak_envoy::envoy::extensions::filters::{http::rbac::v3 as http, network::rbac::v3 as network};

/// Whom an inbound lets in. Nobody by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Permissions {}

impl Permissions {
    /// For an inbound that speaks HTTP.
    pub fn http_filters(&self, _mesh: &str) -> Vec<HttpFilter> {
        let rbac = http::Rbac { rules: Some(rules::Rbac::default()), ..http::Rbac::default() };
        vec![HttpFilter {
            name: "envoy.filters.http.rbac".to_owned(),
            config_type: Some(http_filter::ConfigType::TypedConfig(any(&rbac))),
            ..HttpFilter::default()
        }]
    }

    /// For an inbound of any other protocol.
    pub fn network_filters(&self, _mesh: &str, stat_prefix: &str) -> Vec<Filter> {
        let rbac = network::Rbac {
            rules: Some(rules::Rbac::default()),
            stat_prefix: stat_prefix.to_owned(),
            ..network::Rbac::default()
        };
        vec![Filter {
            name: "envoy.filters.network.rbac".to_owned(),
            config_type: Some(filter::ConfigType::TypedConfig(any(&rbac))),
        }]
    }

    /// Whether callers are told apart by the server name they ask for.
    pub fn needs_sni(&self) -> bool {
        false
    }
}
