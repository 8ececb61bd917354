//! Fault filters of HTTP inbounds: one for each fault.

use kodiak_envoy::any;
use kodiak_envoy::envoy::config::core::v3::TypedExtensionConfig;
use kodiak_envoy::envoy::extensions::common::matching::v3::ExtensionWithMatcher;
use kodiak_envoy::envoy::extensions::filters::http::fault::v3::HttpFault;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{HttpFilter, http_filter};

use super::injections::{self, Condition, Injection};
use super::matcher;
use crate::Entry;
use crate::order::HttpStep;
use crate::target::{Carrier, Chain, Inbound};

const FILTER: &str = "envoy.filters.http.fault";

pub(super) fn inbound(entries: &[Entry], inbound: &mut Inbound<'_>) {
    let injections = injections::of(entries, inbound.mesh);
    for Chain { mtls, carrier } in &mut inbound.chains {
        match carrier {
            Carrier::Http(http) => {
                let filters = injections.iter().flat_map(|injection| injection.filters(*mtls));
                http.filters.extend(filters.map(|filter| (HttpStep::Fault, filter)));
                inbound.inspects_tls |= *mtls && injections.iter().any(Injection::needs_sni);
            }
            Carrier::Tcp(_) => (),
        }
    }
}

impl Injection {
    fn filters(&self, mtls: bool) -> Vec<HttpFilter> {
        let Self { policy, faults, only, except } = self;
        let matcher = match (mtls, only.is_empty()) {
            (true, _) => matcher::of(only, except),
            // Callers are unknown: nobody is excepted.
            (false, true) => None,
            // Callers are unknown: nobody is meant.
            (false, false) => return Vec::new(),
        };
        let name = policy.as_deref().unwrap_or(FILTER);
        let config = |fault: &HttpFault| match &matcher {
            None => any(fault),
            Some(matcher) => any(&ExtensionWithMatcher {
                xds_matcher: Some(matcher.clone()),
                extension_config: Some(TypedExtensionConfig {
                    name: FILTER.to_owned(),
                    typed_config: Some(any(fault)),
                }),
                ..ExtensionWithMatcher::default()
            }),
        };
        let filter = |fault| HttpFilter {
            name: name.to_owned(),
            config_type: Some(http_filter::ConfigType::TypedConfig(config(fault))),
            ..HttpFilter::default()
        };
        faults.iter().map(filter).collect()
    }

    /// Whether the listener needs the TLS inspector.
    fn needs_sni(&self) -> bool {
        let conditions = self.only.iter().chain(&self.except).flat_map(|callers| &callers.0);
        conditions.into_iter().any(|condition| matches!(condition, Condition::Sni(_)))
    }
}

#[cfg(test)]
mod tests;
