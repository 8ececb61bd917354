//! Routes of observed traffic.

use axum::http::Method;

use super::{Content, Route, Run, route};
use crate::{access::Need, handlers::inspect};

pub(super) fn about_traffic() -> Vec<Route> {
    vec![route(
        Method::GET,
        "/meshes/{mesh}/_traffic",
        Need::ReadAny,
        "Observed traffic: which clients called which destinations, and which addresses called servers without mTLS, how often, when first and last, and the time of observation.",
        Content::Object,
        Run::computed(inspect::traffic),
    )]
}
