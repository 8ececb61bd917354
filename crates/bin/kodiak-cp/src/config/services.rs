//! ServiceSettings of services, and their conversion for the service reconciler.

use std::fmt::Display;

use anyhow::Context as _;
use jiff::SignedDuration;
use kodiak_model::{Cidr, GoDuration};
use kodiak_services::{
    generated_services::{Propagation, Rules, Source, is_reserved},
    service_addresses::Ranges,
    service_status::ServiceSettings,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::Config;

/// ServiceSettings of MeshServices, including those that are generated from Dataplanes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct MeshService {
    /// Source of the names of generated MeshServices.
    pub generate_from: GenerateFrom,
    /// Time after which a generated MeshService without Dataplanes is deleted.
    pub deletion_grace_period: GoDuration,
    /// Time after which generated MeshServices are deleted when the mode of their mesh becomes `Disabled`.
    pub disable_grace_period: GoDuration,
    /// Time for which a proxy counts as connected after it disconnected.
    pub connection_grace_period: GoDuration,
    pub label_propagation: LabelPropagation,
}

impl Default for MeshService {
    fn default() -> Self {
        Self {
            generate_from: GenerateFrom::ServiceTag,
            deletion_grace_period: GoDuration::from_secs(60 * 60),
            disable_grace_period: GoDuration::from_secs(2 * 60),
            connection_grace_period: GoDuration::from_secs(30),
            label_propagation: LabelPropagation::default(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GenerateFrom {
    /// Tag `kuma.io/service` of inbounds.
    ServiceTag,
    /// Label `kuma.io/workload` of Dataplanes.
    Workload,
}

/// Labels that generated MeshServices copy from their Dataplanes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct LabelPropagation {
    pub enabled: bool,
    /// Keys to copy; all except those of the control plane when empty.
    #[serde(deserialize_with = "unreserved")]
    pub allowed_label_keys: Vec<String>,
}

fn unreserved<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let keys: Vec<String> = Deserialize::deserialize(deserializer)?;
    match keys.iter().find(|key| is_reserved(key)) {
        Some(key) => Err(D::Error::custom(format!("{key:?} is set by the control plane: remove it"))),
        None => Ok(keys),
    }
}

/// Ranges of virtual addresses, one for each kind of service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Ipam {
    pub mesh_service: Range,
    pub mesh_external_service: Range,
    pub mesh_multi_zone_service: Range,
}

impl Default for Ipam {
    fn default() -> Self {
        let Ranges { services, external_services, multi_zone_services } = Ranges::default();
        Self {
            mesh_service: Range { cidr: services },
            mesh_external_service: Range { cidr: external_services },
            mesh_multi_zone_service: Range { cidr: multi_zone_services },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Range {
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub cidr: Cidr,
}

fn as_text<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn from_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cidr, D::Error> {
    let text: String = Deserialize::deserialize(deserializer)?;
    text.parse().map_err(D::Error::custom)
}

/// ServiceSettings of the service reconciler of this zone.
pub fn services(config: &Config, zone: &str) -> anyhow::Result<ServiceSettings> {
    let MeshService {
        generate_from,
        deletion_grace_period,
        disable_grace_period,
        connection_grace_period,
        label_propagation,
    } = &config.mesh_service;
    let ranges = Ranges {
        services: config.ipam.mesh_service.cidr,
        external_services: config.ipam.mesh_external_service.cidr,
        multi_zone_services: config.ipam.mesh_multi_zone_service.cidr,
    };
    ranges.check().context("the ranges under ipam are invalid")?;
    let rules = Rules {
        zone: zone.to_owned(),
        source: match generate_from {
            GenerateFrom::ServiceTag => Source::ServiceTag,
            GenerateFrom::Workload => Source::Workload,
        },
        grace: period(*deletion_grace_period),
        disable_grace: period(*disable_grace_period),
        propagation: label_propagation
            .enabled
            .then(|| Propagation { allowed: label_propagation.allowed_label_keys.iter().cloned().collect() }),
    };
    Ok(ServiceSettings { rules, ranges, connection_grace: period(*connection_grace_period) })
}

/// Negative durations become zero.
fn period(written: GoDuration) -> SignedDuration {
    SignedDuration::from_nanos(written.nanos().max(0))
}
