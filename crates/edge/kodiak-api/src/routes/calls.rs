//! Routes about calls: who may call whom, and why.

use axum::http::Method;

use super::{Content, Route, Run, route};
use crate::{access::Need, handlers::inspect};

pub(super) fn about_calls() -> Vec<Route> {
    vec![
        route(
            Method::GET,
            "/meshes/{mesh}/_graph",
            Need::ReadAny,
            "Calls that permissions allow, with the policy of each. Clients and destinations are sets; `client` and `destination` restrict them.",
            Content::Object,
            Run::computed(inspect::graph),
        ),
        route(
            Method::GET,
            "/meshes/{mesh}/_why",
            Need::ReadAny,
            "Whether `client` can call `destination`, step by step: name, address, outbound, cluster, endpoints, TLS, permission, proxies.",
            Content::Object,
            Run::computed(inspect::why),
        ),
        route(
            Method::POST,
            "/meshes/{mesh}/_permissions/check",
            Need::Preview,
            "Callers that lose access by a set of writes and deletes, and observed calls that are denied. Nothing is stored.",
            Content::Object,
            Run::computed(inspect::check_permissions),
        ),
        route(
            Method::GET,
            "/meshes/{mesh}/_reachability",
            Need::ReadAny,
            "Mode of each proxy, the destinations that are trimmed or would be, and which of them carried traffic.",
            Content::Object,
            Run::computed(inspect::reachability),
        ),
    ]
}
