//! The REST API.
//!
//! Serves JSON over HTTP. The catalog validates and writes resources; the table of routes has the access rules.
//!
//! **Invariant:** every route names the access that it needs ([`access::Need`]); none answers before that was checked.
//! **Invariant:** every size, count and time that comes from outside is bounded.
//! **Invariant:** an answer that costs more than a lookup is computed on the pool ([`kodiak_pool`]), never on a thread that
//! serves connections. The table of routes says which, and the dispatcher puts it there.
//! **Invariant:** anonymous users do not choose what is computed: previews of documents are a right.
//! **Invariant:** this crate makes no decisions about resources.

pub mod access;
mod body;
pub mod config;
mod dispatch;
mod error;
mod go_json;
mod handlers;
pub mod inspect;
mod kubernetes;
mod list;
mod openapi;
mod origin;
pub mod render;
mod routes;
pub mod server;
mod shapes;
mod user;

use std::sync::Arc;

use handlers::inspect::Meshes;
use kodiak_catalog::Catalog;
use kodiak_metrics::Metrics;

use serde_json::Value;

pub use config::ApiConfig;
pub use dispatch::{local_router, router};
pub use error::ApiError;
pub use inspect::Proxies;
pub use kodiak_pool::Pool;
pub use list::ListQuery;
pub use openapi::document as openapi_document;
pub use user::{Connection, User};

/// State of the API: catalog, proxies, configuration, metrics. Cheap to clone.
#[derive(Clone)]
pub struct Api(Arc<Inner>);

struct Inner {
    catalog: Catalog,
    config: ApiConfig,
    info: Info,
    metrics: Metrics,
    proxies: Arc<dyn Proxies>,
    meshes: Meshes,
    pool: Pool,
}

/// Facts about the control plane that the API shows.
#[derive(Debug, Clone, Default)]
pub struct Info {
    pub hostname: String,
    pub version: String,
    pub instance_id: String,
    pub cluster_id: String,
    /// Current configuration, secrets masked.
    pub config: Value,
}

impl Api {
    /// `pool` computes all answers that are not lookups.
    pub fn new(
        catalog: Catalog,
        config: ApiConfig,
        info: Info,
        metrics: Metrics,
        proxies: Arc<dyn Proxies>,
        pool: Pool,
    ) -> Self {
        Self(Arc::new(Inner { catalog, config, info, metrics, proxies, meshes: Meshes::default(), pool }))
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.0.pool
    }

    pub fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    pub(crate) fn config(&self) -> &ApiConfig {
        &self.0.config
    }

    pub(crate) fn info(&self) -> &Info {
        &self.0.info
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub(crate) fn proxies(&self) -> &dyn Proxies {
        &*self.0.proxies
    }

    pub(crate) fn meshes(&self) -> &Meshes {
        &self.0.meshes
    }
}
