//! Table of routes, from which the router, the OpenAPI document and the authorisation test are generated.

mod calls;
mod identities;
mod migration;
mod proxies;
mod traffic;

use std::{future::Future, pin::Pin, sync::Arc};

use axum::{http::Method, response::Response};
use kodiak_kinds::kinds;
use kodiak_model::{Access, Kind, Overview, Scope};

use crate::{
    Api, ApiError,
    access::Need,
    handlers::{ApiCall, backup, base, insights, inspect, overviews, resources, tokens},
};

type Answer = Pin<Box<dyn Future<Output = Result<Response, ApiError>> + Send>>;

pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) need: Need,
    pub(crate) summary: String,
    pub(crate) content: Content,
    pub(crate) run: Arc<dyn Fn(Api, ApiCall) -> Answer + Send + Sync>,
}

/// Request and response bodies, for the OpenAPI document.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content {
    Resource(&'static Kind),
    List(&'static Kind),
    /// A page of names of resources.
    Names,
    Written(&'static Kind),
    Deleted,
    Token,
    Object,
    /// Response of Envoy's admin interface: text or JSON.
    EnvoyOutput,
    /// JSON Lines.
    Lines,
}

pub(crate) fn all() -> Vec<Route> {
    let mut routes = about_itself();
    routes.extend(proxies::about_proxies());
    routes.extend(proxies::about_policies());
    routes.extend(migration::about_services());
    routes.extend(calls::about_calls());
    routes.extend(traffic::about_traffic());
    routes.extend(identities::about_identities());
    for kind in kinds().iter() {
        for path in [Some(kind.path), kind.other_path].into_iter().flatten() {
            of_kind(kind, path, &mut routes);
        }
    }
    routes
}

fn about_itself() -> Vec<Route> {
    vec![
        route(Method::GET, "/", Need::Nothing, "Name and version of the control plane.", Content::Object, base::index),
        route(
            Method::GET,
            "/config",
            Need::Metadata,
            "Current configuration of the control plane, secrets masked.",
            Content::Object,
            base::config,
        ),
        route(Method::GET, "/policies", Need::Metadata, "Policy kinds.", Content::Object, base::policies),
        route(Method::GET, "/_resources", Need::Metadata, "All kinds.", Content::Object, base::resources),
        route(
            Method::GET,
            "/_kri/{kri}",
            Need::ReadAny,
            "Reads the resource with this KRI.",
            Content::Object,
            resources::get_by_kri,
        ),
        route(
            Method::GET,
            "/_quarantine",
            Need::ReadAny,
            "Quarantined resources: stored, but ignored by this control plane because they caused a panic.",
            Content::Object,
            base::quarantine,
        ),
        route(Method::GET, "/openapi.json", Need::Nothing, "This document.", Content::Object, base::openapi),
        route(
            Method::GET,
            "/who-am-i",
            Need::ReadAny,
            "User and groups of the current credentials.",
            Content::Object,
            base::who_am_i,
        ),
        route(
            Method::GET,
            "/global-insight",
            Need::ReadAny,
            "Counts of resources over all meshes.",
            Content::Object,
            insights::global,
        ),
        route(
            Method::GET,
            "/global-insights",
            Need::ReadAny,
            "Counts of global resources, in the legacy format.",
            Content::Object,
            insights::global_resources,
        ),
        route(
            Method::GET,
            "/store/backup",
            Need::Backup,
            "A backup of the store at one revision, for `kodiak store restore`.",
            Content::Lines,
            backup::backup,
        ),
        route(
            Method::POST,
            "/tokens/dataplane",
            Need::DataplaneToken,
            "Issues a token for a proxy.",
            Content::Token,
            tokens::dataplane,
        ),
        route(
            Method::POST,
            "/tokens/zone",
            Need::ZoneToken,
            "Issues a token for a zone proxy.",
            Content::Token,
            tokens::zone,
        ),
        route(
            Method::POST,
            "/tokens/user",
            Need::UserToken,
            "Issues a token for a user.",
            Content::Token,
            tokens::user,
        ),
    ]
}

fn of_kind(kind: &'static Kind, path: &str, routes: &mut Vec<Route>) {
    let name = kind.name;
    let base = match kind.scope {
        Scope::Mesh => format!("/meshes/{{mesh}}/{path}"),
        Scope::Global => format!("/{path}"),
    };
    let one = format!("{base}/{{name}}");
    let mut add = |method, path: &str, need, summary: String, content, run: Handler| {
        routes.push(Route {
            method,
            path: path.to_owned(),
            need,
            summary,
            content,
            run: Arc::new(move |api, call| run(api, kind, call)),
        });
    };
    let (list, get): (Handler, Handler) = match name {
        "MeshInsight" | "ServiceInsight" => (boxed!(insights::list), boxed!(insights::get)),
        _ => (boxed!(resources::list), boxed!(resources::get)),
    };
    add(Method::GET, &base, Need::Read(kind), format!("Lists {name} resources."), Content::List(kind), list);
    if kind.scope == Scope::Mesh {
        let summary = format!("Lists {name} resources of all meshes.");
        add(Method::GET, &format!("/{path}"), Need::Read(kind), summary, Content::List(kind), list);
    }
    add(Method::GET, &one, Need::Read(kind), format!("Reads a {name}."), Content::Resource(kind), get);
    // Kinds that only the control plane writes have these routes too, for an error with the reason.
    let write = if kind.access == Access::ReadOnly {
        "Rejected: only the control plane writes this kind."
    } else {
        "Creates or replaces the resource."
    };
    add(Method::PUT, &one, Need::Modify(kind), write.to_owned(), Content::Written(kind), boxed!(resources::put));
    let delete =
        if kind.access == Access::ReadOnly { write } else { "Deletes the resource and the resources that it owns." };
    add(Method::DELETE, &one, Need::Modify(kind), delete.to_owned(), Content::Deleted, boxed!(resources::delete));
    if let Some(overview) = kind.overview {
        of_overview(kind, &base, path, overview, &mut add);
    }
    of_members(kind, &one, &mut add);
    of_zone_proxy(kind, &one, &mut add);
}

/// Proxies and status of a policy, proxies and hostnames of a service.
fn of_members(kind: &'static Kind, one: &str, add: &mut impl FnMut(Method, &str, Need, String, Content, Handler)) {
    let name = kind.name;
    let mut get = |last: &str, summary: String, content: Content, handler: Handler| {
        add(Method::GET, &format!("{one}/{last}"), Need::Read(kind), summary, content, handler);
    };
    if kind.is_policy() {
        let summary = format!("Proxies that a {name} selects.");
        get("_resources/dataplanes", summary, Content::Names, boxed!(inspect::policy_members));
        let summary = format!("Proxies that a {name} selects, in the legacy format.");
        get("dataplanes", summary, Content::Object, boxed!(inspect::affected));
        let summary =
            format!("Status of a {name}: number of proxies on which it is in force, and reasons where it is not.");
        get("_status", summary, Content::Object, boxed!(inspect::policy_status));
    }
    if name == "MeshService" {
        for last in ["_resources/dataplanes", "_dataplanes"] {
            get(last, format!("Proxies of a {name}."), Content::Names, boxed!(inspect::service_members));
        }
    }
    if kind.language.destination {
        get("_hostnames", format!("Hostnames of a {name}."), Content::Object, boxed!(inspect::hostnames));
    }
    if name == "MeshGateway" {
        let summary = format!("Rules of a proxy that serves a {name}.");
        get("_rules", summary, Content::Object, boxed!(inspect::gateway_rules));
        let summary = format!("Proxies that serve a {name}, in the legacy format.");
        get("dataplanes", summary, Content::Object, boxed!(inspect::gateway_members));
    }
}

/// Envoy's admin interface of a zone proxy.
fn of_zone_proxy(kind: &'static Kind, one: &str, add: &mut impl FnMut(Method, &str, Need, String, Content, Handler)) {
    if !["ZoneIngress", "ZoneEgress"].contains(&kind.name) {
        return;
    }
    for (last, need, output) in [
        ("xds", Need::ConfigDump, "Configuration dump"),
        ("stats", Need::Stats, "Envoy statistics"),
        ("clusters", Need::Clusters, "Clusters of the Envoy"),
    ] {
        let summary = format!("{output} of a {}. No zone proxy connects yet, so there is none.", kind.name);
        add(Method::GET, &format!("{one}/{last}"), need, summary, Content::EnvoyOutput, boxed!(inspect::zone_proxy));
    }
}

fn of_overview(
    kind: &'static Kind,
    base: &str,
    path: &str,
    overview: Overview,
    add: &mut impl FnMut(Method, &str, Need, String, Content, Handler),
) {
    let Overview { name, old_path, .. } = overview;
    let old = base.replace(kind.path, old_path);
    let lists = format!("Lists {} resources with their insights.", kind.name);
    let reads = format!("Reads a {name}.");
    let mut paths = vec![(format!("{base}/_overview"), true), (format!("{base}/{{name}}/_overview"), false)];
    // Older clients know the main path only.
    if path == kind.path {
        paths.extend([(old.clone(), true), (format!("{old}/{{name}}"), false)]);
    }
    if kind.scope == Scope::Mesh {
        paths.push((format!("/{}/_overview", kind.path), true));
        paths.push((format!("/{old_path}"), true));
    }
    for (path, is_list) in paths {
        let (summary, handler): (&str, Handler) =
            if is_list { (&lists, boxed!(overviews::list)) } else { (&reads, boxed!(overviews::get)) };
        add(Method::GET, &path, Need::Read(kind), summary.to_owned(), Content::Object, handler);
    }
}

type Handler = fn(Api, &'static Kind, ApiCall) -> Answer;

/// Handler of a kind as a plain function pointer.
macro_rules! boxed {
    ($handler:path) => {
        |api, kind, call| Box::pin($handler(api, kind, call))
    };
}
use boxed;

fn route<F>(
    method: Method,
    path: &str,
    need: Need,
    summary: &str,
    content: Content,
    handler: fn(Api, ApiCall) -> F,
) -> Route
where
    F: Future<Output = Result<Response, ApiError>> + Send + 'static,
{
    let run = Arc::new(move |api, call| Box::pin(handler(api, call)) as Answer);
    Route { method, path: path.to_owned(), need, summary: summary.to_owned(), content, run }
}
