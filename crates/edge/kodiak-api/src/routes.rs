//! Table of routes, from which the router, the OpenAPI document and the authorisation test are generated.

mod calls;
mod identities;
mod migration;
mod proxies;
mod run;
#[cfg(test)]
mod tests;
mod traffic;

use axum::http::Method;
use kodiak_kinds::kinds;
use kodiak_model::{Access, Kind, Overview, Scope};

use crate::{
    access::Need,
    handlers::{backup, base, insights, inspect, overviews, resources, tokens},
};

#[cfg(test)]
use run::Cost;
pub(crate) use run::{Compute, Computed, Run};

pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) need: Need,
    pub(crate) summary: String,
    pub(crate) content: Content,
    /// Decides where the dispatcher runs it.
    pub(crate) run: Run,
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
        route(
            Method::GET,
            "/",
            Need::Nothing,
            "Name and version of the control plane.",
            Content::Object,
            Run::lookup(base::index),
        ),
        route(
            Method::GET,
            "/config",
            Need::Metadata,
            "Current configuration of the control plane, secrets masked.",
            Content::Object,
            Run::lookup(base::config),
        ),
        route(Method::GET, "/policies", Need::Metadata, "Policy kinds.", Content::Object, Run::lookup(base::policies)),
        route(Method::GET, "/_resources", Need::Metadata, "All kinds.", Content::Object, Run::lookup(base::resources)),
        route(
            Method::GET,
            "/_kri/{kri}",
            Need::ReadAny,
            "Reads the resource with this KRI.",
            Content::Object,
            Run::computed(resources::get_by_kri),
        ),
        route(
            Method::GET,
            "/_quarantine",
            Need::ReadAny,
            "Quarantined resources: stored, but ignored by this control plane because they caused a panic.",
            Content::Object,
            Run::lookup(base::quarantine),
        ),
        route(
            Method::GET,
            "/openapi.json",
            Need::Nothing,
            "This document.",
            Content::Object,
            Run::lookup(base::openapi),
        ),
        route(
            Method::GET,
            "/who-am-i",
            Need::ReadAny,
            "User and groups of the current credentials.",
            Content::Object,
            Run::lookup(base::who_am_i),
        ),
        route(
            Method::GET,
            "/global-insight",
            Need::ReadAny,
            "Counts of resources over all meshes.",
            Content::Object,
            Run::computed(insights::global),
        ),
        route(
            Method::GET,
            "/global-insights",
            Need::ReadAny,
            "Counts of global resources, in the legacy format.",
            Content::Object,
            Run::lookup(insights::global_resources),
        ),
        route(
            Method::GET,
            "/store/backup",
            Need::Backup,
            "A backup of the store at one revision, for `kodiak store restore`.",
            Content::Lines,
            Run::lookup(backup::backup),
        ),
        route(
            Method::POST,
            "/tokens/dataplane",
            Need::DataplaneToken,
            "Issues a token for a proxy.",
            Content::Token,
            Run::lookup(tokens::dataplane),
        ),
        route(
            Method::POST,
            "/tokens/zone",
            Need::ZoneToken,
            "Issues a token for a zone proxy.",
            Content::Token,
            Run::lookup(tokens::zone),
        ),
        route(
            Method::POST,
            "/tokens/user",
            Need::UserToken,
            "Issues a token for a user.",
            Content::Token,
            Run::lookup(tokens::user),
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
    let mut add = |method, path: &str, need, summary: String, content, run: Run| {
        routes.push(Route { method, path: path.to_owned(), need, summary, content, run });
    };
    let (list, get) = match name {
        "MeshInsight" | "ServiceInsight" => {
            (Run::computed_of(kind, insights::list), Run::computed_of(kind, insights::get))
        }
        // The status of its references depends on the whole mesh.
        "Dataplane" => (Run::computed_of(kind, resources::list), Run::computed_of(kind, resources::get_computed)),
        _ => (Run::computed_of(kind, resources::list), Run::lookup_of(kind, resources::get)),
    };
    add(Method::GET, &base, Need::Read(kind), format!("Lists {name} resources."), Content::List(kind), list.clone());
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
    add(
        Method::PUT,
        &one,
        Need::Modify(kind),
        write.to_owned(),
        Content::Written(kind),
        Run::write_of(kind, resources::put, resources::dry_run),
    );
    let delete =
        if kind.access == Access::ReadOnly { write } else { "Deletes the resource and the resources that it owns." };
    add(
        Method::DELETE,
        &one,
        Need::Modify(kind),
        delete.to_owned(),
        Content::Deleted,
        Run::lookup_of(kind, resources::delete),
    );
    if let Some(overview) = kind.overview {
        of_overview(kind, &base, path, overview, &mut add);
    }
    of_members(kind, &one, &mut add);
    of_zone_proxy(kind, &one, &mut add);
}

/// Proxies and status of a policy, proxies and hostnames of a service.
fn of_members(kind: &'static Kind, one: &str, add: &mut impl FnMut(Method, &str, Need, String, Content, Run)) {
    let name = kind.name;
    let mut get = |last: &str, summary: String, content: Content, run: Run| {
        add(Method::GET, &format!("{one}/{last}"), Need::Read(kind), summary, content, run);
    };
    if kind.is_policy() {
        let summary = format!("Proxies that a {name} selects.");
        get("_resources/dataplanes", summary, Content::Names, Run::computed_of(kind, inspect::policy_members));
        let summary = format!("Proxies that a {name} selects, in the legacy format.");
        get("dataplanes", summary, Content::Object, Run::computed_of(kind, inspect::affected));
        let summary =
            format!("Status of a {name}: number of proxies on which it is in force, and reasons where it is not.");
        get("_status", summary, Content::Object, Run::computed_of(kind, inspect::policy_status));
    }
    if name == "MeshService" {
        for last in ["_resources/dataplanes", "_dataplanes"] {
            get(
                last,
                format!("Proxies of a {name}."),
                Content::Names,
                Run::computed_of(kind, inspect::service_members),
            );
        }
    }
    if kind.language.destination {
        get(
            "_hostnames",
            format!("Hostnames of a {name}."),
            Content::Object,
            Run::computed_of(kind, inspect::hostnames),
        );
    }
    if name == "MeshGateway" {
        let summary = format!("Rules of a proxy that serves a {name}.");
        get("_rules", summary, Content::Object, Run::computed_of(kind, inspect::gateway_rules));
        let summary = format!("Proxies that serve a {name}, in the legacy format.");
        get("dataplanes", summary, Content::Object, Run::computed_of(kind, inspect::gateway_members));
    }
}

/// Envoy's admin interface of a zone proxy.
fn of_zone_proxy(kind: &'static Kind, one: &str, add: &mut impl FnMut(Method, &str, Need, String, Content, Run)) {
    if !["ZoneIngress", "ZoneEgress"].contains(&kind.name) {
        return;
    }
    for (last, need, output) in [
        ("xds", Need::ConfigDump, "Configuration dump"),
        ("stats", Need::Stats, "Envoy statistics"),
        ("clusters", Need::Clusters, "Clusters of the Envoy"),
    ] {
        let summary = format!("{output} of a {}. No zone proxy connects yet, so there is none.", kind.name);
        add(
            Method::GET,
            &format!("{one}/{last}"),
            need,
            summary,
            Content::EnvoyOutput,
            Run::lookup_of(kind, inspect::zone_proxy),
        );
    }
}

fn of_overview(
    kind: &'static Kind,
    base: &str,
    path: &str,
    overview: Overview,
    add: &mut impl FnMut(Method, &str, Need, String, Content, Run),
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
        let (summary, run) = if is_list {
            (&lists, Run::computed_of(kind, overviews::list))
        } else {
            (&reads, Run::lookup_of(kind, overviews::get))
        };
        add(Method::GET, &path, Need::Read(kind), summary.clone(), Content::Object, run);
    }
}

fn route(method: Method, path: &str, need: Need, summary: &str, content: Content, run: Run) -> Route {
    Route { method, path: path.to_owned(), need, summary: summary.to_owned(), content, run }
}
