//! Routes of one proxy, and of the policies of a mesh.

use axum::http::Method;
use kodiak_kinds::kinds;

use super::{Content, Route, Run, route};
use crate::{
    access::Need,
    handlers::{diff, inspect},
};

/// Configuration, status and Envoy's admin interface of a proxy.
pub(super) fn about_proxies() -> Vec<Route> {
    let dataplane = kinds().by_name("Dataplane").expect("proxies have Dataplanes");
    let path = |last: &str| format!("/meshes/{{mesh}}/{}/{{name}}/{last}", dataplane.path);
    vec![
        route(
            Method::GET,
            "/meshes/{mesh}/_policies",
            Need::ReadAny,
            "Status of all policies of a mesh: number of proxies on which each is in force, and reasons where it is not.",
            Content::Object,
            Run::computed(inspect::policy_statuses),
        ),
        route(
            Method::POST,
            "/meshes/{mesh}/_diff",
            Need::Diff,
            "Configuration diff of the proxies for a set of writes and deletes. Nothing is stored.",
            Content::Object,
            Run::computed(diff::diff),
        ),
        route(
            Method::GET,
            &path("_config"),
            Need::ConfigDump,
            "xDS configuration that the control plane sends to a proxy, without private keys.",
            Content::Object,
            Run::computed(inspect::config),
        ),
        route(
            Method::GET,
            &path("_status"),
            // Envoy's errors quote the rejected configuration.
            Need::ConfigDump,
            "Connection status of a proxy: acknowledged and rejected responses, with Envoy's errors.",
            Content::Object,
            Run::computed(inspect::status),
        ),
        route(
            Method::GET,
            &path("_matches"),
            Need::Read(dataplane),
            "Policies that apply to each inbound of a proxy, lowest precedence first.",
            Content::Object,
            Run::computed(inspect::matches),
        ),
        route(
            Method::GET,
            &path("xds"),
            Need::ConfigDump,
            "Configuration dump of the proxy's Envoy, without private keys.",
            Content::Object,
            Run::lookup(inspect::config_dump),
        ),
        route(
            Method::GET,
            &path("stats"),
            Need::Stats,
            "Envoy statistics of a proxy.",
            Content::EnvoyOutput,
            Run::lookup(inspect::stats),
        ),
        route(
            Method::GET,
            &path("clusters"),
            Need::Clusters,
            "Clusters of the proxy's Envoy, with the health and statistics of their endpoints.",
            Content::EnvoyOutput,
            Run::lookup(inspect::clusters),
        ),
        route(
            Method::GET,
            &path("{type}"),
            Need::Read(dataplane),
            "Not found: any other path below a proxy.",
            Content::Object,
            Run::lookup(inspect::unknown),
        ),
    ]
}

/// Policies of a proxy, merged and per inbound, outbound or route.
pub(super) fn about_policies() -> Vec<Route> {
    let dataplane = kinds().by_name("Dataplane").expect("proxies have Dataplanes");
    let path = |last: &str| format!("/meshes/{{mesh}}/{}/{{name}}/{last}", dataplane.path);
    let need = Need::Read(dataplane);
    vec![
        route(
            Method::GET,
            &path("_rules"),
            need,
            "Rules of a proxy by kind, each with the policies that it originates from.",
            Content::Object,
            Run::computed(inspect::rules),
        ),
        route(
            Method::GET,
            &path("_policies"),
            need,
            "Merged configuration of the policies that apply to a proxy as a whole.",
            Content::Object,
            Run::computed(inspect::of_proxy),
        ),
        route(
            Method::GET,
            &path("_inbounds/{inbound_kri}/_policies"),
            need,
            "Merged policy configuration of an inbound.",
            Content::Object,
            Run::computed(inspect::of_inbound),
        ),
        route(
            Method::GET,
            &path("_outbounds/{outbound_kri}/_policies"),
            need,
            "Merged policy configuration of an outbound.",
            Content::Object,
            Run::computed(inspect::of_outbound),
        ),
        route(
            Method::GET,
            &path("_outbounds/{outbound_kri}/_routes"),
            need,
            "Routes of an outbound.",
            Content::Object,
            Run::computed(inspect::routes),
        ),
        route(
            Method::GET,
            &path("_outbounds/{outbound_kri}/_routes/{route_kri}/_policies"),
            need,
            "Merged policy configuration of a route of an outbound.",
            Content::Object,
            Run::computed(inspect::of_route),
        ),
        route(
            Method::GET,
            &path("_layout"),
            need,
            "Inbounds, listeners and outbounds of a proxy, each with its KRI.",
            Content::Object,
            Run::computed(inspect::layout),
        ),
        route(
            Method::GET,
            &path("_references"),
            need,
            "References in the reachable lists and outbounds of a Dataplane, with their current targets and problems.",
            Content::Object,
            Run::computed(inspect::references),
        ),
        route(
            Method::GET,
            &path("policies"),
            need,
            "Policies of a proxy, in the legacy format.",
            Content::Object,
            Run::computed(inspect::old_policies),
        ),
        route(
            Method::GET,
            &path("rules"),
            need,
            "Tag-based rules of a proxy, in the legacy format.",
            Content::Object,
            Run::computed(inspect::old_rules),
        ),
        route(
            Method::GET,
            "/meshes/{mesh}/{service}/{name}/_hostnames",
            Need::ReadAny,
            "Rejected: only services have hostnames.",
            Content::Object,
            Run::lookup(inspect::no_hostnames),
        ),
    ]
}
