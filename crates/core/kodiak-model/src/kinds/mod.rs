//! The kinds that are not policies: one folder each, one line here.

pub mod dataplane;
pub mod dataplane_insight;
pub mod global_secret;
pub mod hostname_generator;
pub mod mesh;
pub mod mesh_external_service;
pub mod mesh_gateway;
pub mod mesh_identity;
pub mod mesh_insight;
pub mod mesh_multi_zone_service;
pub mod mesh_open_telemetry_backend;
pub mod mesh_service;
pub mod mesh_trust;
pub mod mesh_zone_address;
pub mod secret;
pub mod service_insight;
pub mod workload;
pub mod zone;
pub mod zone_egress;
pub mod zone_egress_insight;
pub mod zone_ingress;
pub mod zone_ingress_insight;
pub mod zone_insight;

use crate::Kind;

pub const ALL: &[&Kind] = &[
    &dataplane::KIND,
    &dataplane_insight::KIND,
    &global_secret::KIND,
    &hostname_generator::KIND,
    &mesh::KIND,
    &mesh_external_service::KIND,
    &mesh_gateway::KIND,
    &mesh_identity::KIND,
    &mesh_insight::KIND,
    &mesh_multi_zone_service::KIND,
    &mesh_open_telemetry_backend::KIND,
    &mesh_service::KIND,
    &mesh_trust::KIND,
    &mesh_zone_address::KIND,
    &secret::KIND,
    &service_insight::KIND,
    &workload::KIND,
    &zone::KIND,
    &zone_egress::KIND,
    &zone_egress_insight::KIND,
    &zone_ingress::KIND,
    &zone_ingress_insight::KIND,
    &zone_insight::KIND,
];
