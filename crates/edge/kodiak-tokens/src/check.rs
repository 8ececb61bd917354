//! Whether a verified token is valid for the proxy that presents it. The texts are Kuma's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::claims::{DataplaneClaims, ZoneClaims};

/// The label that names the workload of a proxy.
const WORKLOAD: &str = "kuma.io/workload";

/// Properties of a proxy that a dataplane token is checked against.
#[derive(Clone, Copy, Debug)]
pub struct ProxyFacts<'a> {
    pub name: &'a str,
    pub mesh: &'a str,
    /// The tags of every inbound and of the gateway.
    pub tags: &'a [&'a BTreeMap<String, String>],
    pub labels: &'a BTreeMap<String, String>,
}

/// Every claim is optional; a missing one is not checked.
pub fn check_dataplane(claims: &DataplaneClaims, proxy: &ProxyFacts<'_>) -> Result<(), String> {
    // `kind` is not checked: Kuma never did, so tokens in use have any value there.
    let DataplaneClaims { name: _, mesh: _, tags, kind: _, workload, labels } = claims;
    check_dataplane_name(claims, proxy.mesh, proxy.name)?;
    check_tags(tags, proxy.tags)?;
    check_labels(labels, proxy.labels)?;
    check_workload(workload, proxy)
}

/// The part of [`check_dataplane`] that needs no Dataplane.
pub fn check_dataplane_name(claims: &DataplaneClaims, mesh: &str, name: &str) -> Result<(), String> {
    check_equal("proxy name", name, &claims.name)?;
    check_equal("proxy mesh", mesh, &claims.mesh)
}

fn check_equal(what: &str, of_proxy: &str, of_token: &str) -> Result<(), String> {
    if of_token.is_empty() || of_token == of_proxy {
        return Ok(());
    }
    Err(format!("{what} from requestor: {of_proxy} is different than in token: {of_token}"))
}

fn check_tags(of_token: &BTreeMap<String, Vec<String>>, of_proxy: &[&BTreeMap<String, String>]) -> Result<(), String> {
    for (tag, allowed) in of_token {
        let values: BTreeSet<&String> = of_proxy.iter().filter_map(|tags| tags.get(tag)).collect();
        if values.is_empty() {
            return Err(format!("dataplane has no tag {tag:?} required by the token"));
        }
        if let Some(value) = values.into_iter().find(|value| !allowed.contains(value)) {
            return Err(format!(
                "dataplane contains tag {tag:?} with value {value:?} which is not allowed with this token. \
                 Allowed values in token are {}",
                quoted(allowed)
            ));
        }
    }
    Ok(())
}

fn check_labels(of_token: &BTreeMap<String, Vec<String>>, of_proxy: &BTreeMap<String, String>) -> Result<(), String> {
    for (label, allowed) in of_token {
        let Some(value) = of_proxy.get(label) else {
            return Err(format!("dataplane has no label {label:?} required by the token"));
        };
        if !allowed.contains(value) {
            return Err(format!(
                "dataplane has label {label:?} with value {value:?} which is not allowed with this token. \
                 Allowed values in token are {}",
                quoted(allowed)
            ));
        }
    }
    Ok(())
}

fn check_workload(of_token: &str, proxy: &ProxyFacts<'_>) -> Result<(), String> {
    match proxy.labels.get(WORKLOAD) {
        Some(label) if !of_token.is_empty() && label != of_token => Err(format!(
            "dataplane workload {label:?} is not allowed with this token. Allowed workload in token is {of_token:?}"
        )),
        None if !of_token.is_empty() => Err("dataplane has no workload label required by the token".to_owned()),
        Some(_) | None => Ok(()),
    }
}

/// Role of a proxy of a zone, as in the scope of a zone token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneScope {
    Ingress,
    Egress,
}

impl fmt::Display for ZoneScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        })
    }
}

/// Properties of a zone proxy that a zone token is checked against.
#[derive(Clone, Copy, Debug)]
pub struct ZoneFacts<'a> {
    /// The zone of this control plane.
    pub zone: &'a str,
    pub scope: ZoneScope,
}

pub fn check_zone(claims: &ZoneClaims, proxy: &ZoneFacts<'_>) -> Result<(), String> {
    let ZoneClaims { zone, scope } = claims;
    let needed = proxy.scope.to_string();
    if !scope.contains(&needed) {
        return Err(format!(
            "token cannot be used to authenticate zone entity ({needed} is out of token's scope: [{}])",
            scope.join(" ")
        ));
    }
    check_equal("zone", proxy.zone, zone)
}

/// A list as Go's `%q` prints it, in a fixed order.
fn quoted(values: &[String]) -> String {
    let values: BTreeSet<String> = values.iter().map(|value| format!("{value:?}")).collect();
    format!("[{}]", values.into_iter().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests;
