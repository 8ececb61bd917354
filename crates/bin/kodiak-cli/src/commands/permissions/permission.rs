//! Drafted MeshTrafficPermissions: one for each set of proxies that is called, with the callers that were observed.

use std::collections::{BTreeMap, BTreeSet};

use kodiak_model::tags::SERVICE;
use kodiak_xds::names;
use serde_json::{Value, json};

use super::traffic::{Edge, ObservedDestination, ObservedTraffic, PermissionForm, Selection};

/// Longest readable part of a name; the limit of names is 253 characters.
const LONGEST_SLUG: usize = 200;
/// Characters of the hash in a name.
const HASH: usize = 8;

/// Options of a draft.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DraftOptions<'a> {
    /// Edges with fewer requests are not allowed.
    pub(super) min_requests: u64,
    /// Only this destination: its name, its `kuma.io/service` or its KRI.
    pub(super) destination: Option<&'a str>,
}

/// All permissions of a mesh, and the edges that none of them covers.
#[derive(Debug, Default)]
pub(super) struct Draft<'a> {
    pub(super) permissions: Vec<DraftedPermission<'a>>,
    pub(super) uncovered: Vec<(&'a Edge, Uncovered)>,
}

/// Permission for the callers of one set of proxies.
#[derive(Debug)]
pub(super) struct DraftedPermission<'a> {
    pub(super) selection: &'a Selection,
    /// Destinations with these proxies.
    pub(super) destinations: BTreeSet<&'a str>,
    /// Edges by the SPIFFE ID, or the `kuma.io/service`, that allows them.
    pub(super) callers: BTreeMap<String, Vec<&'a Edge>>,
}

/// Reason why no permission allows an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Uncovered {
    /// Permissions do not apply to MeshExternalServices.
    External,
    /// The destination was deleted, or has no proxies.
    NoProxies,
    /// The client has no `kuma.io/service`.
    NoService,
    /// The client has no SPIFFE ID.
    NoIdentity,
    /// The edge has fewer requests than the user asked for.
    FewRequests,
}

impl<'a> Draft<'a> {
    pub(super) fn of(traffic: &'a ObservedTraffic, options: DraftOptions<'_>) -> Self {
        let mut draft = Self::default();
        let mut called: BTreeMap<&Selection, (BTreeSet<&str>, Vec<&Edge>)> = BTreeMap::new();
        for edge in &traffic.edges {
            let destination = traffic.destination(&edge.destination);
            if options.destination.is_some_and(|asked| !is_named(asked, edge, destination)) {
                continue;
            }
            let selections = destination.map(|destination| selections(traffic, destination)).unwrap_or_default();
            let reason = if destination.is_some_and(|destination| destination.kind == "MeshExternalService") {
                Some(Uncovered::External)
            } else if selections.is_empty() {
                Some(Uncovered::NoProxies)
            } else if let Some(reason) = unnamed(traffic, edge) {
                Some(reason)
            } else if edge.requests < options.min_requests {
                Some(Uncovered::FewRequests)
            } else {
                None
            };
            if let Some(reason) = reason {
                draft.uncovered.push((edge, reason));
                continue;
            }
            for selection in selections {
                let (destinations, edges) = called.entry(selection).or_default();
                destinations.insert(&edge.destination);
                edges.push(edge);
            }
        }
        draft.permissions = called
            .into_iter()
            .map(|(selection, (destinations, edges))| DraftedPermission {
                selection,
                destinations,
                callers: callers(traffic, &edges),
            })
            .collect();
        draft
    }
}

fn is_named(asked: &str, edge: &Edge, destination: Option<&ObservedDestination>) -> bool {
    edge.destination == asked || destination.is_some_and(|destination| destination.name == asked)
}

/// Proxies behind a destination; for a MeshMultiZoneService, those of its MeshServices.
fn selections<'a>(traffic: &'a ObservedTraffic, destination: &'a ObservedDestination) -> BTreeSet<&'a Selection> {
    let services = destination.services.iter().filter_map(|service| traffic.destination(service));
    destination.proxies.iter().chain(services.flat_map(|service| &service.proxies)).collect()
}

/// Why a permission cannot name the client.
fn unnamed(traffic: &ObservedTraffic, edge: &Edge) -> Option<Uncovered> {
    let client = traffic.client(&edge.client);
    let has_service = client.is_some_and(|client| !client.services.is_empty());
    let has_id = client.is_some_and(|client| !client.spiffe_ids.is_empty());
    match traffic.permission_form {
        PermissionForm::From => (!has_service).then_some(Uncovered::NoService),
        PermissionForm::Rules => (!has_service && !has_id).then_some(Uncovered::NoIdentity),
    }
}

/// Edges by the SPIFFE ID or the service that allows them.
///
/// One service of a proxy with several is enough to allow it. That is one which calls on its own, too, if there is one:
/// another would also allow proxies that have only that service.
fn callers<'a>(traffic: &'a ObservedTraffic, edges: &[&'a Edge]) -> BTreeMap<String, Vec<&'a Edge>> {
    let services = |edge: &Edge| traffic.client(&edge.client).map_or(&[][..], |client| &client.services);
    let alone: BTreeSet<&str> = edges
        .iter()
        .filter_map(|edge| match services(edge) {
            [only] => Some(only.as_str()),
            _ => None,
        })
        .collect();
    let mut callers: BTreeMap<String, Vec<&Edge>> = BTreeMap::new();
    for edge in edges {
        let mut all = services(edge).iter().map(String::as_str);
        let chosen = all.clone().find(|service| alone.contains(service)).or_else(|| all.next());
        let names = match traffic.permission_form {
            PermissionForm::From => chosen.map(str::to_owned).into_iter().collect(),
            PermissionForm::Rules => ids(traffic, edge, chosen),
        };
        for name in names {
            callers.entry(name).or_default().push(edge);
        }
    }
    callers
}

/// SPIFFE IDs that allow an edge: of those for its services the one of `service`, and all that MeshIdentities give. A
/// client without proxies has those that a CA backend would give.
fn ids(traffic: &ObservedTraffic, edge: &Edge, service: Option<&str>) -> BTreeSet<String> {
    let Some(client) = traffic.client(&edge.client) else { return BTreeSet::new() };
    let of_service = |service: &str| names::service_identity(&traffic.mesh, service);
    let chosen = service.map(of_service);
    if client.spiffe_ids.is_empty() {
        return chosen.into_iter().collect();
    }
    let of_services: BTreeSet<String> = client.services.iter().map(|service| of_service(service)).collect();
    let is_used = |id: &&String| !of_services.contains(*id) || chosen.as_ref() == Some(*id);
    client.spiffe_ids.iter().filter(is_used).cloned().collect()
}

impl DraftedPermission<'_> {
    /// Depends on the selected proxies only, so that a later draft updates the same resource.
    pub(super) fn name(&self) -> String {
        let (values, is_service): (Vec<&str>, bool) = match self.selection {
            Selection::Tags(tags) => {
                (tags.values().map(String::as_str).collect(), tags.len() == 1 && tags.contains_key(SERVICE))
            }
            Selection::Labels(labels) => (labels.values().map(String::as_str).collect(), false),
            Selection::Name(name) => (vec![name], false),
        };
        let written = values.join("-");
        let slug = slug(&written);
        if is_service && slug == written {
            return format!("allow-to-{slug}");
        }
        let hash = names::etag(&self.target_ref().to_string());
        let parts = ["allow-to", &slug, &hash[..HASH]];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
    }

    pub(super) fn target_ref(&self) -> Value {
        match self.selection {
            Selection::Tags(tags) => json!({ "kind": "MeshSubset", "tags": tags }),
            Selection::Labels(labels) => json!({ "kind": "Dataplane", "labels": labels }),
            Selection::Name(name) => json!({ "kind": "Dataplane", "name": name }),
        }
    }
}

/// Lower case letters, digits and single dashes between them.
fn slug(text: &str) -> String {
    let mut slug = String::with_capacity(text.len());
    for character in text.chars().flat_map(char::to_lowercase) {
        if character.is_ascii_alphanumeric() {
            slug.push(character);
        } else if !slug.ends_with('-') && !slug.is_empty() {
            slug.push('-');
        }
    }
    slug.truncate(LONGEST_SLUG);
    slug.trim_end_matches('-').to_owned()
}
