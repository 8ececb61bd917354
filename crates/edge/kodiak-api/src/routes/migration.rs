//! The routes about the way from `kuma.io/service` to MeshService.

use axum::http::Method;

use super::{Content, Route, route};
use crate::{access::Need, handlers::inspect};

pub(super) fn about_services() -> Vec<Route> {
    vec![
        route(
            Method::GET,
            "/meshes/{mesh}/_migration",
            Need::ReadAny,
            "Services by their tags with the MeshServices that stand for them, and policies that use old names.",
            Content::Object,
            inspect::standing,
        ),
        route(
            Method::GET,
            "/meshes/{mesh}/_migration/consumers",
            Need::ReadAny,
            "What each proxy calls by tags and by MeshServices, and which policies with old names are about it.",
            Content::Object,
            inspect::consumers,
        ),
        route(
            Method::POST,
            "/meshes/{mesh}/_migration/convert",
            Need::ReadAny,
            "Policies with new references beside old ones, or why not. Nothing is stored.",
            Content::Object,
            inspect::converted,
        ),
    ]
}
