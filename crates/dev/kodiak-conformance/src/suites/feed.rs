//! Shared by suites: loads documents into a store, and sends requests to the HTTP handlers.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context as _;
use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Method, Request, header},
};
use kodiak_api::{Api, ApiConfig, Connection, Info, Pool};
use kodiak_catalog::{Catalog, CatalogSettings, owner_of};
use kodiak_cp::Offline;
use kodiak_kinds::kinds;
use kodiak_metrics::Metrics;
use kodiak_model::{Place, Problems, ResourceKey, Scope, check};
use kodiak_store::{Expect, Store, Transaction, Write};
use tower::ServiceExt as _;

use crate::lenient;

/// Address of the API in responses.
pub(crate) const ADDRESS: &str = "127.0.0.1:5681";

/// Stores the documents unchanged: specs are validated, labels are kept as they are. Returns why they cannot be read,
/// if so.
pub(crate) async fn load(store: &Store, text: &str) -> anyhow::Result<Option<String>> {
    let documents = match lenient::parse(text) {
        Ok(documents) => documents,
        Err(error) => return Ok(Some(format!("the input is unsupported YAML: {error}"))),
    };
    let mut loaded = Vec::new();
    for document in documents {
        let draft = kodiak_kinds::draft(document.value).map_err(|problems| anyhow::anyhow!("{problems}"))?;
        let Some(kind) = kinds().by_name(&draft.kind) else {
            return Ok(Some(format!("kind {} is unsupported", draft.kind)));
        };
        let mut problems = Problems::default();
        let found = check::spec(kind, draft.clone(), &mut problems);
        let spec = found.with_context(|| format!("{} {}: {problems}", draft.kind, draft.name))?.json().to_owned();
        loaded.push((kind, draft, spec));
    }
    // Meshes first: the others belong to them.
    loaded.sort_by_key(|(kind, ..)| kind.name != "Mesh");
    for (kind, draft, spec) in loaded {
        let mesh = draft.mesh.filter(|_| kind.scope == Scope::Mesh).unwrap_or_default();
        let key = ResourceKey::in_mesh(kind.name, &mesh, &draft.name);
        let owner = owner_of(kind, &mesh, &draft.name).filter(|owner| store.get(owner).is_some());
        let mut writes =
            vec![Write::Put { key: key.clone(), spec: spec.into(), labels: draft.labels, owner, expect: Expect::Any }];
        if let Some(status) = draft.status.and_then(kind.language.canonical_status) {
            writes.push(Write::PutStatus { key, status: status.into(), expect: Expect::Any });
        }
        store.commit(Transaction(writes)).await?;
    }
    Ok(None)
}

/// API of a control plane without connected proxies.
pub(crate) fn router(store: Store, place: Place, engine: kodiak_engine::EngineSettings) -> Router {
    let proxies =
        Arc::new(Offline::new(store.clone(), engine, kodiak_services::service_status::ServiceSettings::default()));
    let catalog = Catalog::new(store, CatalogSettings { place, unsafe_delete: false });
    let api = Api::new(catalog, ApiConfig::default(), Info::default(), Metrics::new(), proxies, Pool::default());
    kodiak_api::router(&api)
}

/// Status and body of the response, to a local client.
pub(crate) async fn send(router: &Router, method: Method, path: &str, body: String) -> anyhow::Result<(u16, String)> {
    let mut request = Request::builder()
        .method(method)
        .uri(path.replace('[', "%5B").replace(']', "%5D"))
        .header(header::HOST, ADDRESS)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body))?;
    request.extensions_mut().insert(Connection::Tcp { peer: SocketAddr::from(([127, 0, 0, 1], 1)), tls: false });
    let response = router.clone().oneshot(request).await?;
    let status = response.status().as_u16();
    let bytes = to_bytes(response.into_body(), usize::MAX).await?;
    Ok((status, String::from_utf8(bytes.to_vec())?))
}
