//! Validation of locality awareness.

use kodiak_model::{Choice, FieldPath, IntOrString, Problems, TargetKind, TargetRef};

use crate::{
    mesh_load_balancing_strategy::{AffinityTag, CrossZone, Failover, LocalityAwareness, ToZone, ToZoneType},
    percentage, positive,
};

pub(super) fn check(locality: &LocalityAwareness, target: &TargetRef, at: &FieldPath<'_>, problems: &mut Problems) {
    let LocalityAwareness { disabled: _, local_zone, cross_zone } = locality;
    if let Some(tags) = local_zone.as_ref().and_then(|zone| zone.affinity_tags.as_deref()) {
        check_affinity(tags, &at.field("localZone").field("affinityTags"), problems);
    }
    if let Some(cross_zone) = cross_zone {
        let at = at.field("crossZone");
        if is_real_service(target) {
            problems.add(&at, "must not be set: MeshService traffic is local");
        }
        check_cross_zone(cross_zone, &at, problems);
    }
}

fn check_affinity(tags: &[AffinityTag], at: &FieldPath<'_>, problems: &mut Problems) {
    for (n, AffinityTag { key, weight }) in tags.iter().enumerate() {
        let at = at.index(n);
        problems.require(!key.is_empty(), &at.field("key"), "must not be empty");
        positive::check_count(*weight, &at.field("weight"), problems);
    }
    let weighted = tags.iter().filter(|tag| tag.weight.is_some()).count();
    if weighted > 0 && weighted < tags.len() {
        problems.add(at, "all or none affinity tags should have weight");
    }
}

/// A reference by labels or to a section selects the MeshService of this zone, never a `kuma.io/service` of all zones.
fn is_real_service(target: &TargetRef) -> bool {
    let has_section = target.section_name.as_ref().is_some_and(|name| !name.is_empty());
    let has_labels = target.labels.as_ref().is_some_and(|labels| !labels.is_empty());
    target.known_kind() == Some(TargetKind::MeshService) && (has_section || has_labels)
}

fn check_cross_zone(cross_zone: &CrossZone, at: &FieldPath<'_>, problems: &mut Problems) {
    let CrossZone { failover, failover_threshold } = cross_zone;
    let at_failover = at.field("failover");
    for (n, Failover { from, to }) in failover.iter().flatten().enumerate() {
        let at = at_failover.index(n);
        if let Some(from) = from {
            check_from_zones(&from.zones, &at.field("from").field("zones"), problems);
        }
        check_to_zone(to, &at.field("to"), problems);
    }
    if let Some(threshold) = failover_threshold {
        check_threshold(threshold.percentage.as_ref(), &at.field("failoverThreshold").field("percentage"), problems);
    }
}

fn check_from_zones(zones: &[String], at: &FieldPath<'_>, problems: &mut Problems) {
    problems.require(!zones.is_empty(), at, "must not be empty");
    for (n, zone) in zones.iter().enumerate() {
        problems.require(!zone.is_empty(), &at.index(n), "must not be empty");
    }
}

fn check_to_zone(to: &ToZone, at: &FieldPath<'_>, problems: &mut Problems) {
    let ToZone { zone_type, zones } = to;
    let no_zones = zones.as_ref().is_none_or(Vec::is_empty);
    let at_zones = at.field("zones");
    match zone_type.as_ref().and_then(Choice::known) {
        Some(ToZoneType::Any) => problems.require(no_zones, &at_zones, "must be empty when type is Any"),
        Some(ToZoneType::None) => problems.require(no_zones, &at_zones, "must be empty when type is None"),
        Some(ToZoneType::AnyExcept) => {
            problems.require(!no_zones, &at_zones, "must not be empty when type is AnyExcept");
        }
        Some(ToZoneType::Only) => problems.require(!no_zones, &at_zones, "must not be empty when type is Only"),
        None => problems.add(&at.field("type"), "unrecognized type"),
    }
}

/// The percentage of healthy endpoints cannot fall below zero, so zero would have no effect.
fn check_threshold(percentage: Option<&IntOrString>, at: &FieldPath<'_>, problems: &mut Problems) {
    percentage::check(percentage, at, problems);
    if percentage.and_then(IntOrString::decimal) == Some(0.0) {
        problems.add(at, "must be greater than 0");
    }
}
