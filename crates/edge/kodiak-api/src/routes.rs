//! The table of routes. The router, the OpenAPI document and the authorisation test are all made from it.

mod migration;
mod proxies;

use std::{future::Future, pin::Pin, sync::Arc};

use axum::{http::Method, response::Response};
use kodiak_kinds::kinds;
use kodiak_model::{Access, Kind, Overview, Scope};

use crate::{
    Api, ApiError,
    access::Need,
    handlers::{Asked, backup, base, insights, inspect, overviews, resources, tokens},
};

type Answer = Pin<Box<dyn Future<Output = Result<Response, ApiError>> + Send>>;

pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) need: Need,
    pub(crate) summary: String,
    pub(crate) content: Content,
    pub(crate) run: Arc<dyn Fn(Api, Asked) -> Answer + Send + Sync>,
}

/// What goes in or comes out, for the OpenAPI document.
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
    /// As the proxy says it: text or JSON.
    Told,
    /// JSON, one document a line.
    Lines,
}

pub(crate) fn all() -> Vec<Route> {
    let mut routes = about_itself();
    routes.extend(proxies::about_proxies());
    routes.extend(proxies::about_policies());
    routes.extend(migration::about_services());
    for kind in kinds().iter() {
        for path in [Some(kind.path), kind.other_path].into_iter().flatten() {
            of_kind(kind, path, &mut routes);
        }
    }
    routes
}

fn about_itself() -> Vec<Route> {
    vec![
        route(Method::GET, "/", Need::Nothing, "What this control plane is.", Content::Object, base::index),
        route(
            Method::GET,
            "/config",
            Need::Metadata,
            "The configuration in force, secrets masked.",
            Content::Object,
            base::config,
        ),
        route(
            Method::GET,
            "/policies",
            Need::Metadata,
            "The kinds that are policies.",
            Content::Object,
            base::policies,
        ),
        route(Method::GET, "/_resources", Need::Metadata, "All kinds.", Content::Object, base::resources),
        route(
            Method::GET,
            "/_kri/{kri}",
            Need::ReadAny,
            "The resource with this KRI.",
            Content::Object,
            resources::get_by_kri,
        ),
        route(
            Method::GET,
            "/_quarantine",
            Need::ReadAny,
            "Stored resources that this control plane ignores because they made it panic.",
            Content::Object,
            base::quarantine,
        ),
        route(Method::GET, "/openapi.json", Need::Nothing, "This document.", Content::Object, base::openapi),
        route(
            Method::GET,
            "/who-am-i",
            Need::ReadAny,
            "Who you are to this control plane.",
            Content::Object,
            base::who_am_i,
        ),
        route(
            Method::GET,
            "/global-insight",
            Need::ReadAny,
            "Numbers over all meshes.",
            Content::Object,
            insights::global,
        ),
        route(
            Method::GET,
            "/global-insights",
            Need::ReadAny,
            "Numbers of global resources.",
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
            run: Arc::new(move |api, asked| run(api, kind, asked)),
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
    // Kinds that only the control plane writes have these routes too: they say so.
    let write = if kind.access == Access::ReadOnly {
        "Refused: only the control plane writes it."
    } else {
        "Creates or replaces it."
    };
    add(Method::PUT, &one, Need::Modify(kind), write.to_owned(), Content::Written(kind), boxed!(resources::put));
    let delete = if kind.access == Access::ReadOnly { write } else { "Deletes it and what it owns." };
    add(Method::DELETE, &one, Need::Modify(kind), delete.to_owned(), Content::Deleted, boxed!(resources::delete));
    if let Some(overview) = kind.overview.filter(|_| path == kind.path) {
        of_overview(kind, &base, overview, &mut add);
    }
    of_members(kind, &one, &mut add);
}

/// Whom a policy or a service is about, and how a service is found.
fn of_members(kind: &'static Kind, one: &str, add: &mut impl FnMut(Method, &str, Need, String, Content, Handler)) {
    let name = kind.name;
    let mut get = |last: &str, summary: String, content: Content, handler: Handler| {
        add(Method::GET, &format!("{one}/{last}"), Need::Read(kind), summary, content, handler);
    };
    if kind.is_policy() {
        let summary = format!("The proxies that a {name} selects.");
        get("_resources/dataplanes", summary, Content::Names, boxed!(inspect::policy_members));
        let summary = format!("The proxies that a {name} selects, in an older form.");
        get("dataplanes", summary, Content::Object, boxed!(inspect::affected));
        let summary = format!("On how many proxies a {name} is in force; where it is not, and why.");
        get("_status", summary, Content::Object, boxed!(inspect::policy_status));
    }
    if name == "MeshService" {
        for last in ["_resources/dataplanes", "_dataplanes"] {
            get(last, format!("The proxies behind a {name}."), Content::Names, boxed!(inspect::service_members));
        }
    }
    if kind.language.destination {
        get("_hostnames", format!("The hostnames of a {name}."), Content::Object, boxed!(inspect::hostnames));
    }
    if name == "MeshGateway" {
        let summary = format!("The rules at a proxy that serves a {name}.");
        get("_rules", summary, Content::Object, boxed!(inspect::gateway_rules));
    }
}

fn of_overview(
    kind: &'static Kind,
    base: &str,
    overview: Overview,
    add: &mut impl FnMut(Method, &str, Need, String, Content, Handler),
) {
    let Overview { name, old_path, .. } = overview;
    let old = base.replace(kind.path, old_path);
    let lists = format!("Lists {} resources with what is observed of them.", kind.name);
    let reads = format!("Reads a {name}.");
    let mut paths = vec![(format!("{base}/_overview"), true), (old.clone(), true)];
    paths.extend([(format!("{base}/{{name}}/_overview"), false), (format!("{old}/{{name}}"), false)]);
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

type Handler = fn(Api, &'static Kind, Asked) -> Answer;

/// A handler of a kind as a plain function pointer.
macro_rules! boxed {
    ($handler:path) => {
        |api, kind, asked| Box::pin($handler(api, kind, asked))
    };
}
use boxed;

fn route<F>(
    method: Method,
    path: &str,
    need: Need,
    summary: &str,
    content: Content,
    handler: fn(Api, Asked) -> F,
) -> Route
where
    F: Future<Output = Result<Response, ApiError>> + Send + 'static,
{
    let run = Arc::new(move |api, asked| Box::pin(handler(api, asked)) as Answer);
    Route { method, path: path.to_owned(), need, summary: summary.to_owned(), content, run }
}
