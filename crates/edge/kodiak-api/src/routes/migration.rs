//! Routes of the migrations from `kuma.io/service` tags to MeshService, and of permissions to SPIFFE IDs.

use axum::http::Method;

use super::{Content, Route, Run, route};
use crate::{access::Need, handlers::inspect};

pub(super) fn about_services() -> Vec<Route> {
    vec![
        route(
            Method::GET,
            "/meshes/{mesh}/_migration",
            Need::ReadAny,
            "Services by kuma.io/service tag with their MeshServices, and policies that reference services by tag.",
            Content::Object,
            Run::computed(inspect::standing),
        ),
        route(
            Method::GET,
            "/meshes/{mesh}/_migration/consumers",
            Need::ReadAny,
            "Destinations that each proxy calls by tag and by MeshService, and the policies with legacy references that apply to it.",
            Content::Object,
            Run::computed(inspect::consumers),
        ),
        route(
            Method::POST,
            "/meshes/{mesh}/_migration/convert",
            Need::Preview,
            "Converts policies: adds MeshService references next to legacy ones, or returns the reason why not. Nothing is stored.",
            Content::Object,
            Run::computed(inspect::converted),
        ),
        route(
            Method::POST,
            "/meshes/{mesh}/_migration/identity/convert",
            Need::Preview,
            "Converts MeshTrafficPermissions from tags to SPIFFE IDs, or returns the reason why not, with a proof that verdicts stay the same. With apply, stores all of them at once.",
            Content::Object,
            Run::stored(inspect::converted_permissions),
        ),
    ]
}
