//! Modifications with parsed values, and their effect on one resource.

use std::sync::Arc;

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::listener::v3::{Filter, Listener};
use kodiak_envoy::envoy::config::route::v3::VirtualHost;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use kodiak_model::Choice;

use super::filters::FilterEdit;
use super::http;
use super::matching::{self, Location};
use super::value::{Edit, NamedMessage, parse};
use super::{
    ClusterMatch, ClusterMod, FilterMatch, FilterMod, ListenerMatch, ListenerMod, Modification, ResourceOperation,
    VirtualHostMatch, VirtualHostMod,
};

/// A resource that modifications change.
#[derive(Debug, Clone, PartialEq)]
pub enum Resource {
    Cluster(Box<Cluster>),
    Listener(Box<Listener>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceType {
    Cluster,
    Listener,
}

impl Resource {
    pub fn name(&self) -> &str {
        match self {
            Self::Cluster(cluster) => &cluster.name,
            Self::Listener(listener) => &listener.name,
        }
    }

    pub fn resource_type(&self) -> ResourceType {
        match self {
            Self::Cluster(_) => ResourceType::Cluster,
            Self::Listener(_) => ResourceType::Listener,
        }
    }
}

/// Effect of a modification on a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The resource stays, changed or not.
    Stays,
    Removed,
}

/// One modification of a policy.
#[derive(Debug)]
pub struct Step {
    /// Policy and field, as in `MeshProxyPatch "a": spec.default.appendModifications[2].httpFilter`.
    at: Arc<str>,
    change: Result<Change, String>,
}

#[derive(Debug)]
enum Change {
    Cluster(ClusterMatch, ResourceEdit<Cluster>),
    Listener(ListenerMatch, ResourceEdit<Listener>),
    NetworkFilter(FilterMatch, FilterEdit<Filter>),
    HttpFilter(FilterMatch, FilterEdit<HttpFilter>),
    VirtualHost(VirtualHostMatch, ResourceEdit<VirtualHost>),
}

#[derive(Debug)]
pub(super) enum ResourceEdit<M> {
    Add(Box<M>),
    Remove,
    Patch(Edit<M>),
}

impl Step {
    pub(super) fn of(policy: &str, n: usize, modification: &Modification) -> Self {
        let Modification { cluster, listener, network_filter, http_filter, virtual_host } = modification;
        let (part, change) = if let Some(written) = cluster {
            let ClusterMod { matching, operation, value, json_patches } = written;
            let edit = ResourceEdit::of(operation.as_ref(), value.as_deref(), json_patches.as_deref());
            ("cluster", edit.map(|edit| Change::Cluster(matching.clone().unwrap_or_default(), edit)))
        } else if let Some(written) = listener {
            let ListenerMod { matching, operation, value, json_patches } = written;
            let edit = ResourceEdit::of(operation.as_ref(), value.as_deref(), json_patches.as_deref());
            ("listener", edit.map(|edit| Change::Listener(matching.clone().unwrap_or_default(), edit)))
        } else if let Some(written) = virtual_host {
            let VirtualHostMod { matching, operation, value, json_patches } = written;
            let edit = ResourceEdit::of(operation.as_ref(), value.as_deref(), json_patches.as_deref());
            ("virtualHost", edit.map(|edit| Change::VirtualHost(matching.clone().unwrap_or_default(), edit)))
        } else if let Some(written) = network_filter {
            let FilterMod { matching, operation, value, json_patches } = written;
            let edit = FilterEdit::of(operation.as_ref(), value.as_deref(), json_patches.as_deref());
            ("networkFilter", edit.map(|edit| Change::NetworkFilter(matching.clone().unwrap_or_default(), edit)))
        } else if let Some(written) = http_filter {
            let FilterMod { matching, operation, value, json_patches } = written;
            let edit = FilterEdit::of(operation.as_ref(), value.as_deref(), json_patches.as_deref());
            ("httpFilter", edit.map(|edit| Change::HttpFilter(matching.clone().unwrap_or_default(), edit)))
        } else {
            ("", Err("no modification is defined".to_owned()))
        };
        let member = if part.is_empty() { String::new() } else { format!(".{part}") };
        let at = format!("MeshProxyPatch {policy:?}: spec.default.appendModifications[{n}]{member}");
        Self { at: at.into(), change }
    }

    pub fn at(&self) -> &Arc<str> {
        &self.at
    }

    /// Why the step cannot be applied to any proxy: validation rejects such a policy, unless it was stored earlier.
    pub fn error(&self) -> Option<&str> {
        self.change.as_ref().err().map(String::as_str)
    }

    /// The resource that it adds.
    pub fn added(&self) -> Option<Resource> {
        match self.change.as_ref().ok()? {
            Change::Cluster(_, ResourceEdit::Add(cluster)) => Some(Resource::Cluster(cluster.clone())),
            Change::Listener(_, ResourceEdit::Add(listener)) => Some(Resource::Listener(listener.clone())),
            Change::Cluster(..)
            | Change::Listener(..)
            | Change::NetworkFilter(..)
            | Change::HttpFilter(..)
            | Change::VirtualHost(..) => None,
        }
    }

    /// Whether it may change a resource with this name: only then the resource needs to be decoded.
    pub fn may_select(&self, resource_type: ResourceType, name: &str, origin: &str) -> bool {
        let Ok(change) = &self.change else { return false };
        let is = |matched: &Option<String>, value: &str| matched.as_deref().is_none_or(|matched| matched == value);
        match (change, resource_type) {
            (Change::Cluster(_, ResourceEdit::Add(added)), ResourceType::Cluster) => added.name == name,
            (Change::Listener(_, ResourceEdit::Add(added)), ResourceType::Listener) => added.name == name,
            (Change::Cluster(matching, _), ResourceType::Cluster) => {
                is(&matching.name, name) && is(&matching.origin, origin)
            }
            (Change::Listener(matching, _), ResourceType::Listener) => {
                is(&matching.name, name) && is(&matching.origin, origin)
            }
            (Change::NetworkFilter(matching, _) | Change::HttpFilter(matching, _), ResourceType::Listener) => {
                is(&matching.listener_name, name) && is(&matching.origin, origin)
            }
            (Change::VirtualHost(matching, _), ResourceType::Listener) => is(&matching.origin, origin),
            (Change::Cluster(..), ResourceType::Listener)
            | (
                Change::Listener(..) | Change::NetworkFilter(..) | Change::HttpFilter(..) | Change::VirtualHost(..),
                ResourceType::Cluster,
            ) => false,
        }
    }

    /// Whether it removes clusters with this name, of any origin.
    pub(super) fn removes_cluster(&self, name: &str) -> bool {
        match &self.change {
            Ok(Change::Cluster(matching, ResourceEdit::Remove)) => {
                matching.name.as_deref().is_none_or(|matched| matched == name)
            }
            Ok(
                Change::Cluster(..)
                | Change::Listener(..)
                | Change::NetworkFilter(..)
                | Change::HttpFilter(..)
                | Change::VirtualHost(..),
            )
            | Err(_) => false,
        }
    }

    pub fn apply(&self, resource: &mut Resource, origin: &str) -> Result<Effect, String> {
        let Ok(change) = &self.change else { return Ok(Effect::Stays) };
        match (change, resource) {
            (Change::Cluster(matching, edit), Resource::Cluster(cluster)) => {
                let matches = matching::is_cluster(matching, cluster, origin);
                edit.apply(cluster, matches)
            }
            (Change::Listener(matching, edit), Resource::Listener(listener)) => {
                let matches = Location::of(matching).selects(listener, origin);
                edit.apply(listener, matches)
            }
            (Change::NetworkFilter(matching, edit), Resource::Listener(listener)) => {
                if Location::of_filter(matching).selects(listener, origin) {
                    let chains = listener.filter_chains.iter_mut().chain(&mut listener.default_filter_chain);
                    for chain in chains {
                        edit.apply(&mut chain.filters, matching.name.as_deref())?;
                    }
                }
                Ok(Effect::Stays)
            }
            (Change::HttpFilter(matching, edit), Resource::Listener(listener)) => {
                if Location::of_filter(matching).selects(listener, origin) {
                    http::each_manager(listener, |manager| {
                        edit.apply(&mut manager.http_filters, matching.name.as_deref())
                    })?;
                }
                Ok(Effect::Stays)
            }
            (Change::VirtualHost(matching, edit), Resource::Listener(listener)) => {
                if matching.origin.as_deref().is_none_or(|matched| matched == origin) {
                    http::each_manager(listener, |manager| http::edit_virtual_hosts(manager, matching, edit))?;
                }
                Ok(Effect::Stays)
            }
            (Change::Cluster(..), Resource::Listener(_))
            | (
                Change::Listener(..) | Change::NetworkFilter(..) | Change::HttpFilter(..) | Change::VirtualHost(..),
                Resource::Cluster(_),
            ) => Ok(Effect::Stays),
        }
    }
}

impl<M: NamedMessage> ResourceEdit<M> {
    fn of(
        operation: Option<&Choice<ResourceOperation>>,
        value: Option<&str>,
        patches: Option<&[super::JsonPatch]>,
    ) -> Result<Self, String> {
        match operation.and_then(Choice::known) {
            Some(ResourceOperation::Add) => Ok(Self::Add(Box::new(parse(value.unwrap_or_default())?))),
            Some(ResourceOperation::Remove) => Ok(Self::Remove),
            Some(ResourceOperation::Patch) => Edit::of(value, patches).map(Self::Patch),
            None => Err("the operation is unknown".to_owned()),
        }
    }

    /// For a resource with a name of its own in the configuration of the proxy.
    fn apply(&self, resource: &mut M, matches: bool) -> Result<Effect, String> {
        match self {
            // The added resource replaces one with the same name.
            Self::Add(added) if added.name() == resource.name() => Ok(Effect::Removed),
            Self::Remove if matches => Ok(Effect::Removed),
            Self::Patch(edit) if matches => {
                let patched = edit.apply(resource)?;
                if patched.name() != resource.name() {
                    return Err(format!("changes the name to {:?}; Add a resource instead", patched.name()));
                }
                *resource = patched;
                Ok(Effect::Stays)
            }
            Self::Add(_) | Self::Remove | Self::Patch(_) => Ok(Effect::Stays),
        }
    }
}
