//! The part of an inbound listener that decides who may call: never older than the current state.

use kodiak_envoy::{
    TypeUrl as _,
    envoy::{
        config::listener::v3::{FilterChain, FilterChainMatch, Listener, filter},
        extensions::filters::{
            http::rbac::v3::Rbac as HttpRbac,
            network::{
                http_connection_manager::v3::{HttpConnectionManager, http_filter},
                rbac::v3::Rbac as NetworkRbac,
            },
        },
    },
    google::protobuf::Any,
    unpack,
};

/// Whether two listeners admit the same callers: equal RBAC filters and transport sockets in equal filter chains.
pub(crate) fn are_equal(one: &Listener, other: &Listener) -> bool {
    chains(one).map(Admission::of).eq(chains(other).map(Admission::of))
}

fn chains(listener: &Listener) -> impl Iterator<Item = &FilterChain> {
    listener.filter_chains.iter().chain(&listener.default_filter_chain)
}

#[derive(PartialEq)]
struct Admission<'a> {
    matched: Option<&'a FilterChainMatch>,
    transport_socket: Option<Any>,
    filters: Vec<Any>,
}

impl<'a> Admission<'a> {
    fn of(chain: &'a FilterChain) -> Self {
        use kodiak_envoy::envoy::config::core::v3::transport_socket::ConfigType;
        let socket = chain.transport_socket.as_ref().and_then(|socket| socket.config_type.as_ref());
        let transport_socket = socket.map(|ConfigType::TypedConfig(any)| any.clone());
        let filters = chain.filters.iter().flat_map(|filter| match &filter.config_type {
            Some(filter::ConfigType::TypedConfig(any)) => of_filter(any),
            Some(filter::ConfigType::ConfigDiscovery(_)) | None => Vec::new(),
        });
        Self { matched: chain.filter_chain_match.as_ref(), transport_socket, filters: filters.collect() }
    }
}

fn of_filter(any: &Any) -> Vec<Any> {
    match any.type_url.as_str() {
        NetworkRbac::TYPE_URL => vec![any.clone()],
        HttpConnectionManager::TYPE_URL => {
            let Ok(manager) = unpack::<HttpConnectionManager>(any) else { return vec![any.clone()] };
            let configs = manager.http_filters.into_iter().filter_map(|filter| match filter.config_type? {
                http_filter::ConfigType::TypedConfig(any) => Some(any),
                http_filter::ConfigType::ConfigDiscovery(_) => None,
            });
            configs.filter(|any| any.type_url == HttpRbac::TYPE_URL).collect()
        }
        _ => Vec::new(),
    }
}
