//! Insights of meshes and services, from proxies and their DataplaneInsights.

mod global;
mod mesh;
mod services;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use kodiak_model::{
    kinds::{
        dataplane::{Dataplane, ProxyState},
        dataplane_insight::DataplaneInsight,
        mesh_insight::DataplaneStat,
    },
    tags,
};

pub use global::{GlobalProxies, GlobalServices, global_proxies, global_services};
pub use mesh::{MeshFacts, mesh_insight};
pub use services::services;

/// ObservedProxy with its DataplaneInsight.
pub struct ObservedProxy {
    pub dataplane: Arc<Dataplane>,
    pub insight: Option<Arc<DataplaneInsight>>,
}

/// Type of the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxySort {
    Standard,
    GatewayBuiltin,
    GatewayDelegated,
}

impl ObservedProxy {
    pub fn state(&self) -> ProxyState {
        self.dataplane.status(self.insight.as_deref()).state
    }

    pub fn sort(&self) -> ProxySort {
        if self.dataplane.is_builtin_gateway() {
            ProxySort::GatewayBuiltin
        } else if self.dataplane.is_delegated_gateway() {
            ProxySort::GatewayDelegated
        } else {
            ProxySort::Standard
        }
    }

    /// The services it belongs to, each once.
    fn services(&self) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.dataplane.tag_sets().filter_map(|tags| tags.get(tags::SERVICE)).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Who issued its certificate.
    fn issued_backend(&self) -> Option<&str> {
        let mtls = self.insight.as_ref()?.mtls.as_ref()?;
        Some(mtls.issued_backend.as_str()).filter(|backend| !backend.is_empty())
    }
}

fn count(stat: &mut DataplaneStat, state: ProxyState) {
    stat.total += 1;
    match state {
        ProxyState::Online => stat.online += 1,
        ProxyState::Offline => stat.offline += 1,
        ProxyState::PartiallyDegraded => stat.partially_degraded += 1,
    }
}
