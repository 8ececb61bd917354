//! Route of the certificates of proxies.

use axum::http::Method;

use super::{Content, Route, Run, route};
use crate::{access::Need, handlers::inspect};

pub(super) fn about_identities() -> Vec<Route> {
    vec![route(
        Method::GET,
        "/meshes/{mesh}/_identities",
        Need::ReadAny,
        "MeshIdentities with their status, the certificate of each proxy, and its progress towards the issuer of the target.",
        Content::Object,
        Run::computed(inspect::identities),
    )]
}
