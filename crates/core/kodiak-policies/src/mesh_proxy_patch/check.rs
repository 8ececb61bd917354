//! Validation of MeshProxyPatch. Errors that depend on the configuration of a proxy are reported as its faults.

use kodiak_envoy::envoy::config::{
    cluster::v3::Cluster,
    listener::v3::{Filter, Listener},
    route::v3::VirtualHost,
};
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use kodiak_model::{CheckCtx, Choice, FieldPath, Problems, TargetRules};

use super::{
    ClusterMod, Conf, FilterMod, FilterOperation, JsonPatch, ListenerMod, MeshProxyPatch, Modification,
    ResourceOperation, VirtualHostMod,
    value::{self, NamedMessage},
};
use crate::top_level;

pub(super) fn check(spec: &MeshProxyPatch, ctx: &CheckCtx<'_>, problems: &mut Problems) {
    let at = FieldPath::SPEC;
    let MeshProxyPatch { target_ref, default } = spec;
    if let Some(target) = target_ref {
        let kinds = if ctx.is_system_role() { top_level::PROXIES_AND_GATEWAYS } else { top_level::PROXIES };
        target.check(TargetRules::kinds(kinds), &at.field("targetRef"), problems);
    }
    let Conf { append_modifications } = default;
    let at = at.field("default");
    let at = at.field("appendModifications");
    let modifications = append_modifications.as_deref().unwrap_or_default();
    problems.require(!modifications.is_empty(), &at, "must not be empty");
    for (n, modification) in modifications.iter().enumerate() {
        check_modification(modification, &at.index(n), problems);
    }
}

fn check_modification(modification: &Modification, at: &FieldPath<'_>, problems: &mut Problems) {
    let Modification { cluster, listener, network_filter, http_filter, virtual_host } = modification;
    let set = [
        cluster.is_some(),
        listener.is_some(),
        network_filter.is_some(),
        http_filter.is_some(),
        virtual_host.is_some(),
    ];
    let count = set.iter().filter(|set| **set).count();
    if count != 1 {
        let message =
            format!("exactly one modification can be defined at a time. Currently, {count} modifications are defined");
        problems.add(at, message);
        return;
    }
    if let Some(ClusterMod { matching, operation, value, json_patches }) = cluster {
        let body = Body::new::<Cluster>("cluster", value.as_deref(), json_patches.as_deref());
        let forbidden = matching.as_ref().map(|_| "match");
        check_resource(operation.as_ref(), forbidden, &body, at, problems);
    }
    if let Some(ListenerMod { matching, operation, value, json_patches }) = listener {
        let body = Body::new::<Listener>("listener", value.as_deref(), json_patches.as_deref());
        let forbidden = matching.as_ref().map(|_| "match");
        check_resource(operation.as_ref(), forbidden, &body, at, problems);
    }
    if let Some(VirtualHostMod { matching, operation, value, json_patches }) = virtual_host {
        let body = Body::new::<VirtualHost>("virtualHost", value.as_deref(), json_patches.as_deref());
        let forbidden = matching.as_ref().and_then(|matching| matching.name.as_ref()).map(|_| "match.name");
        check_resource(operation.as_ref(), forbidden, &body, at, problems);
    }
    if let Some(filter) = network_filter {
        check_filter::<Filter>(filter, "networkFilter", at, problems);
    }
    if let Some(filter) = http_filter {
        check_filter::<HttpFilter>(filter, "httpFilter", at, problems);
    }
}

/// `forbidden` are members that select existing resources, which a new resource must not have.
fn check_resource(
    operation: Option<&Choice<ResourceOperation>>,
    forbidden: Option<&str>,
    body: &Body<'_>,
    at: &FieldPath<'_>,
    problems: &mut Problems,
) {
    let at = at.field(body.name);
    match operation.and_then(Choice::known) {
        Some(ResourceOperation::Add) => {
            if let Some(field) = forbidden {
                problems.add(&at.field(field), "must not be defined");
            }
            body.check_added(&at, problems);
        }
        Some(ResourceOperation::Patch) => body.check_patch(&at, problems),
        Some(ResourceOperation::Remove) => body.check_removed(&at, problems),
        None => {
            problems
                .add(&at.field("operation"), r#"invalid operation. Available operations: "Add", "Patch", "Remove""#);
        }
    }
}

fn check_filter<F: NamedMessage>(filter: &FilterMod, name: &'static str, at: &FieldPath<'_>, problems: &mut Problems) {
    let FilterMod { matching, operation, value, json_patches } = filter;
    let body = Body::new::<F>(name, value.as_deref(), json_patches.as_deref());
    let at = at.field(name);
    let named = matching.as_ref().is_some_and(|matching| matching.name.is_some());
    let at_match = at.field("match");
    let at_name = at_match.field("name");
    match operation.as_ref().and_then(Choice::known) {
        Some(FilterOperation::AddFirst | FilterOperation::AddLast) => body.check_added(&at, problems),
        Some(FilterOperation::AddBefore) => {
            const MESSAGE: &str = "must be defined. You need to pick a filter before which this one will be added";
            problems.require(named, &at_name, MESSAGE);
            body.check_added(&at, problems);
        }
        Some(FilterOperation::AddAfter) => {
            const MESSAGE: &str = "must be defined. You need to pick a filter after which this one will be added";
            problems.require(named, &at_name, MESSAGE);
            body.check_added(&at, problems);
        }
        Some(FilterOperation::Patch) => {
            problems.require(named, &at_name, "must be defined");
            body.check_patch(&at, problems);
        }
        Some(FilterOperation::Remove) => body.check_removed(&at, problems),
        None => problems.add(
            &at.field("operation"),
            r#"invalid operation. Available operations: "AddFirst", "AddLast", "AddBefore", "AddAfter", "Patch", "Remove""#,
        ),
    }
}

/// Payload of a modification.
struct Body<'a> {
    name: &'static str,
    value: Option<&'a str>,
    json_patches: Option<&'a [JsonPatch]>,
    /// Name of the message in a value.
    read: fn(&str) -> Result<String, String>,
}

impl<'a> Body<'a> {
    /// For values that are messages of type `M`.
    fn new<M: NamedMessage>(name: &'static str, value: Option<&'a str>, json_patches: Option<&'a [JsonPatch]>) -> Self {
        let read = |text: &str| value::parse::<M>(text).map(|message| message.name().to_owned());
        Self { name, value, json_patches, read }
    }

    fn check_added(&self, at: &FieldPath<'_>, problems: &mut Problems) {
        match self.value {
            None => problems.add(&at.field("value"), "must be defined"),
            Some(value) => match self.check_value(value, &at.field("value"), problems) {
                Some(name) if name.is_empty() => {
                    problems.add(&at.field("value"), "native Envoy resource is not valid: it has no name");
                }
                Some(_) | None => (),
            },
        }
    }

    fn check_patch(&self, at: &FieldPath<'_>, problems: &mut Problems) {
        let Self { name, value, json_patches, read: _ } = self;
        match (value, json_patches.unwrap_or_default()) {
            (None, []) => problems.add(at, format!("{name} must have exactly one defined: value, jsonPatches")),
            (Some(value), []) => drop(self.check_value(value, &at.field("value"), problems)),
            (Some(_), [_, ..]) => {
                problems.add(at, format!("{name} must have only one type defined: value, jsonPatches"));
            }
            (None, patches) => {
                let at = at.field("jsonPatches");
                for (n, patch) in patches.iter().enumerate() {
                    patch.check(&at.index(n), problems);
                }
            }
        }
    }

    fn check_removed(&self, at: &FieldPath<'_>, problems: &mut Problems) {
        problems.require(self.value.is_none(), &at.field("value"), "must not be defined");
    }

    /// Returns the name of the message, if it is valid.
    fn check_value(&self, value: &str, at: &FieldPath<'_>, problems: &mut Problems) -> Option<String> {
        match (self.read)(value) {
            Ok(name) => Some(name),
            Err(error) => {
                problems.add(at, format!("native Envoy resource is not valid: {error}"));
                None
            }
        }
    }
}
