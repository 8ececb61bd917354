//! The routes about one proxy.

use axum::http::Method;
use kodiak_kinds::kinds;

use super::{Content, Route, route};
use crate::{
    access::Need,
    handlers::{diff, inspect},
};

/// What a proxy should have, what it has, and how it stands.
pub(super) fn about_proxies() -> Vec<Route> {
    let dataplane = kinds().by_name("Dataplane").expect("proxies have Dataplanes");
    let path = |last: &str| format!("/meshes/{{mesh}}/{}/{{name}}/{last}", dataplane.path);
    vec![
        route(
            Method::GET,
            "/meshes/{mesh}/_policies",
            Need::ReadAny,
            "All policies of a mesh: on how many proxies each is in force; where it is not, and why.",
            Content::Object,
            inspect::policy_statuses,
        ),
        route(
            Method::POST,
            "/meshes/{mesh}/_diff",
            Need::ConfigDump,
            "Which proxies would change, and how, if resources were written or deleted. Nothing is stored.",
            Content::Object,
            diff::diff,
        ),
        route(
            Method::GET,
            &path("_config"),
            Need::ConfigDump,
            "What the control plane has for a proxy, without keys.",
            Content::Object,
            inspect::config,
        ),
        route(
            Method::GET,
            &path("_status"),
            // What proxies say when they reject something quotes it.
            Need::ConfigDump,
            "How the connection of a proxy stands: what it acknowledged, what it rejected and why.",
            Content::Object,
            inspect::status,
        ),
        route(
            Method::GET,
            &path("_matches"),
            Need::Read(dataplane),
            "The policies in force at each inbound of a proxy, weakest first.",
            Content::Object,
            inspect::matches,
        ),
        route(
            Method::GET,
            &path("xds"),
            Need::ConfigDump,
            "The configuration that a proxy runs on, without keys.",
            Content::Object,
            inspect::config_dump,
        ),
        route(Method::GET, &path("stats"), Need::Stats, "What a proxy counts.", Content::Told, inspect::stats),
        route(
            Method::GET,
            &path("clusters"),
            Need::Clusters,
            "Where a proxy sends calls, and how it goes.",
            Content::Told,
            inspect::clusters,
        ),
        route(
            Method::GET,
            &path("{type}"),
            Need::Read(dataplane),
            "Not found: there is nothing else to ask a proxy for.",
            Content::Object,
            inspect::unknown,
        ),
    ]
}

/// Which policies make a proxy what it is.
pub(super) fn about_policies() -> Vec<Route> {
    let dataplane = kinds().by_name("Dataplane").expect("proxies have Dataplanes");
    let path = |last: &str| format!("/meshes/{{mesh}}/{}/{{name}}/{last}", dataplane.path);
    let need = Need::Read(dataplane);
    vec![
        route(
            Method::GET,
            &path("_rules"),
            need,
            "The rules at a proxy, kind by kind, with the policies that they come from.",
            Content::Object,
            inspect::rules,
        ),
        route(
            Method::GET,
            &path("_policies"),
            need,
            "What policies come to for a proxy as a whole.",
            Content::Object,
            inspect::of_proxy,
        ),
        route(
            Method::GET,
            &path("_inbounds/{inbound_kri}/_policies"),
            need,
            "What policies come to at an inbound of a proxy.",
            Content::Object,
            inspect::of_inbound,
        ),
        route(
            Method::GET,
            &path("_outbounds/{outbound_kri}/_policies"),
            need,
            "What policies come to for calls of a proxy to a destination.",
            Content::Object,
            inspect::of_outbound,
        ),
        route(
            Method::GET,
            &path("_outbounds/{outbound_kri}/_routes"),
            need,
            "The routes that calls of a proxy to a destination take.",
            Content::Object,
            inspect::routes,
        ),
        route(
            Method::GET,
            &path("_outbounds/{outbound_kri}/_routes/{route_kri}/_policies"),
            need,
            "What policies come to for calls that take a route.",
            Content::Object,
            inspect::of_route,
        ),
        route(
            Method::GET,
            &path("_layout"),
            need,
            "The inbounds, listeners and destinations of a proxy, each with its KRI.",
            Content::Object,
            inspect::layout,
        ),
        route(
            Method::GET,
            &path("_references"),
            need,
            "What the reachable lists and outbounds of a Dataplane mean now, and what is wrong with them.",
            Content::Object,
            inspect::references,
        ),
        route(
            Method::GET,
            &path("policies"),
            need,
            "The policies of a proxy, in an older form.",
            Content::Object,
            inspect::old_policies,
        ),
        route(
            Method::GET,
            &path("rules"),
            need,
            "The rules by tags of a proxy, in an older form.",
            Content::Object,
            inspect::old_rules,
        ),
        route(
            Method::GET,
            "/meshes/{mesh}/{service}/{name}/_hostnames",
            Need::ReadAny,
            "Refused: only services have hostnames.",
            Content::Object,
            inspect::no_hostnames,
        ),
    ]
}
