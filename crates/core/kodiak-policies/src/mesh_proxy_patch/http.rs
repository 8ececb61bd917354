//! HTTP connection managers inside listeners, and their virtual hosts.

use kodiak_envoy::envoy::config::listener::v3::{Listener, filter};
use kodiak_envoy::envoy::config::route::v3::VirtualHost;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, http_connection_manager::RouteSpecifier,
};
use kodiak_envoy::{TypeUrl as _, any, unpack};

use super::VirtualHostMatch;
use super::step::ResourceEdit;
use super::value::{NamedMessage as _, chain};

/// Changes each HTTP connection manager of a listener.
pub(super) fn each_manager(
    listener: &mut Listener,
    mut change: impl FnMut(&mut HttpConnectionManager) -> Result<(), String>,
) -> Result<(), String> {
    let chains = listener.filter_chains.iter_mut().chain(&mut listener.default_filter_chain);
    for filter in chains.flat_map(|chain| &mut chain.filters) {
        let Some(filter::ConfigType::TypedConfig(config)) = &mut filter.config_type else { continue };
        if config.type_url == HttpConnectionManager::TYPE_URL {
            let mut manager: HttpConnectionManager = unpack(config).map_err(|error| chain(&error))?;
            change(&mut manager)?;
            *config = any(&manager);
        }
    }
    Ok(())
}

/// Changes the virtual hosts of a route configuration inside a connection manager.
pub(super) fn edit_virtual_hosts(
    manager: &mut HttpConnectionManager,
    matching: &VirtualHostMatch,
    edit: &ResourceEdit<VirtualHost>,
) -> Result<(), String> {
    let VirtualHostMatch { origin: _, name, route_configuration_name } = matching;
    let Some(RouteSpecifier::RouteConfig(routes)) = &mut manager.route_specifier else { return Ok(()) };
    if route_configuration_name.as_ref().is_some_and(|wanted| *wanted != routes.name) {
        return Ok(());
    }
    let is_selected = |host: &VirtualHost| name.as_ref().is_none_or(|name| name == host.name());
    match edit {
        ResourceEdit::Add(host) => routes.virtual_hosts.push((**host).clone()),
        ResourceEdit::Remove => routes.virtual_hosts.retain(|host| !is_selected(host)),
        ResourceEdit::Patch(edit) => {
            for host in routes.virtual_hosts.iter_mut().filter(|host| is_selected(host)) {
                *host = edit.apply(host)?;
            }
        }
    }
    Ok(())
}
