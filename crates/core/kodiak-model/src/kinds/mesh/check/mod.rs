//! Validation of a Mesh.

mod backends;
mod metrics;
mod mtls;

use super::{Mesh, MeshConstraints, MeshServices, Mtls, Routing, TagRule};
use crate::{FieldPath, Problems, tags};

pub use metrics::check_metrics_backend;

pub(super) fn check(mesh: &Mesh, problems: &mut Problems) {
    let Mesh {
        mtls,
        tracing,
        logging,
        metrics,
        networking: _,
        routing,
        constraints,
        skip_creating_initial_policies: _,
        mesh_services,
    } = mesh;
    let at = FieldPath::ROOT;
    if let Some(mtls) = mtls {
        mtls::check(mtls, &at.field("mtls"), problems);
    }
    if let Some(logging) = logging {
        backends::check_logging(logging, &at.field("logging"), problems);
    }
    if let Some(tracing) = tracing {
        backends::check_tracing(tracing, &at.field("tracing"), problems);
    }
    if let Some(metrics) = metrics {
        metrics::check(metrics, &at.field("metrics"), problems);
    }
    if let Some(constraints) = constraints {
        check_constraints(constraints, &at.field("constraints"), problems);
    }
    check_zone_egress(routing.as_ref(), mtls.as_ref(), problems);
    if let Some(MeshServices { mode: Some(mode), unknown: _ }) = mesh_services {
        mode.check(&at.field("meshServices"), "mode", problems);
    }
}

fn check_constraints(constraints: &MeshConstraints, at: &FieldPath<'_>, problems: &mut Problems) {
    let Some(rules) = &constraints.dataplane_proxy else { return };
    let at = at.field("dataplaneProxy");
    check_tag_rules(&rules.requirements, &at.field("requirements"), problems);
    check_tag_rules(&rules.restrictions, &at.field("restrictions"), problems);
}

fn check_tag_rules(rules: &[TagRule], at: &FieldPath<'_>, problems: &mut Problems) {
    for (n, rule) in rules.iter().enumerate() {
        let at = at.index(n);
        let at = at.field("tags");
        problems.require(!rule.tags.is_empty(), &at, "must have at least one tag");
        tags::check_selector(&rule.tags, &at, problems);
    }
}

/// The zone egress identifies callers by their certificates.
fn check_zone_egress(routing: Option<&Routing>, mtls: Option<&Mtls>, problems: &mut Problems) {
    let needed = routing.is_some_and(|routing| routing.zone_egress);
    let enabled = mtls.is_some_and(|mtls| !mtls.enabled_backend.is_empty());
    problems.require(!needed || enabled, &FieldPath::ROOT.field("mtls"), "has to be set when zoneEgress enabled");
}

/// Reports backends that have the name of an earlier one.
fn check_unique_names<'a>(names: impl Iterator<Item = &'a str>, at: &FieldPath<'_>, problems: &mut Problems) {
    let mut used = Vec::new();
    for (n, name) in names.enumerate() {
        if used.contains(&name) {
            let at = at.index(n);
            problems.add(&at.field("name"), format!("{name:?} name is already used for another backend"));
        }
        used.push(name);
    }
}
