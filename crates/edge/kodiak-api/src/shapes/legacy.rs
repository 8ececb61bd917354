//! Inspection in the legacy format of kumactl.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::{kinds::dataplane::Dataplane, tags};
use kodiak_rules::{Matched, Policy, Proxy, subset};
use serde::Serialize;
use serde_json::Value;

use kodiak_inspection::inspect::{MeshView, is_for_whole_proxy};

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct List<T> {
    pub(crate) total: usize,
    pub(crate) items: Vec<T>,
}

impl<T> From<Vec<T>> for List<T> {
    fn from(items: Vec<T>) -> Self {
        Self { total: items.len(), items }
    }
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Name {
    pub(crate) mesh: String,
    pub(crate) name: String,
}

/// Proxy that a policy selects.
#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "kind")]
pub(crate) enum Affected {
    SidecarDataplane { dataplane: Name, attachments: Vec<Attachment> },
    MeshGatewayDataplane { dataplane: Name, gateway: Name },
}

/// Policies of today are about proxies as a whole, so there is nothing more to say than that.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Attachment {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) service: String,
}

/// One rule, with the place that it applies to.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RuleEntry {
    /// For callers, for destinations, or for the proxy.
    #[serde(rename = "type")]
    pub(crate) entry_type: &'static str,
    /// Address and port of the inbound or outbound.
    pub(crate) name: String,
    pub(crate) addresses: Vec<String>,
    pub(crate) service: String,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) policy_type: &'static str,
    pub(crate) subset: BTreeMap<String, String>,
    pub(crate) conf: Value,
    pub(crate) origins: Vec<Name>,
}

pub(crate) fn affected(view: &MeshView, proxy: &Proxy) -> Affected {
    let dataplane = name_of(proxy);
    if let Some(gateway) = view.policy_index.gateway_of(proxy) {
        let gateway = Name { mesh: gateway.mesh.to_string(), name: gateway.name.to_string() };
        return Affected::MeshGatewayDataplane { dataplane, gateway };
    }
    let attachment = Attachment { kind: "dataplane", ..Attachment::default() };
    Affected::SidecarDataplane { dataplane, attachments: vec![attachment] }
}

pub(crate) fn name_of(proxy: &Proxy) -> Name {
    Name { mesh: proxy.mesh.to_string(), name: proxy.name.to_string() }
}

/// All rules by tags. Those that cannot be made are missing.
pub(crate) fn rules(view: &MeshView, proxy: &Proxy) -> List<RuleEntry> {
    let mut entries = Vec::new();
    for (kind, facts, matched) in view.in_force(proxy, |_| true) {
        if is_for_whole_proxy(facts) {
            let rule = subset::single(&matched.proxy);
            entries.extend(rule.map(|rule| entry("SingleItem", kind.name, &Place::default(), &rule)));
        }
        for (place, policies) in inbounds(&matched, &proxy.dataplane) {
            let rules = subset::from(policies).unwrap_or_default();
            entries.extend(rules.iter().map(|rule| entry("ClientSubset", kind.name, &place, rule)));
        }
        if facts.to && view.has_legacy_destinations() {
            let rules = subset::to(&matched.proxy, &view.resources).unwrap_or_default();
            for place in outbounds(&proxy.dataplane) {
                let tags: Vec<(&str, &str)> = place.tags.iter().map(|(key, value)| (&**key, &**value)).collect();
                let rule = subset::find(&rules, &tags);
                entries.extend(rule.map(|rule| entry("DestinationSubset", kind.name, &place, rule)));
            }
        }
    }
    entries.into()
}

/// Place that a rule applies to.
#[derive(Default)]
struct Place {
    address: String,
    tags: BTreeMap<String, String>,
}

fn inbounds<'a>(
    matched: &'a Matched,
    dataplane: &'a Dataplane,
) -> impl Iterator<Item = (Place, &'a [Arc<Policy>])> + 'a {
    let own = dataplane.networking.as_ref().map_or("", |networking| networking.address.as_str());
    matched.inbounds.iter().filter_map(move |(n, policies)| {
        let inbound = dataplane.inbounds().get(*n)?;
        let address = format!("{}:{}", inbound.address_or(own), inbound.port);
        Some((Place { address, tags: inbound.tags.clone() }, policies.as_slice()))
    })
}

fn outbounds(dataplane: &Dataplane) -> impl Iterator<Item = Place> {
    let by_tags = dataplane.outbounds().iter().filter(|outbound| !outbound.tags.is_empty());
    by_tags.map(|outbound| {
        let address = format!("{}:{}", outbound.address(), outbound.port);
        Place { address, tags: outbound.tags.clone() }
    })
}

fn entry(entry_type: &'static str, policy_type: &'static str, place: &Place, rule: &subset::Rule) -> RuleEntry {
    let mut subset: BTreeMap<String, String> = BTreeMap::new();
    for tag in &rule.subset {
        let value = if tag.not { format!("!{}", tag.value) } else { tag.value.clone() };
        let known = subset.entry(tag.key.clone()).or_default();
        *known = if known.is_empty() { value } else { format!("{known},{value}") };
    }
    let Place { address, tags } = place;
    RuleEntry {
        entry_type,
        name: address.clone(),
        addresses: Some(address.clone()).filter(|address| !address.is_empty()).into_iter().collect(),
        service: tags.get(tags::SERVICE).cloned().unwrap_or_default(),
        tags: tags.clone(),
        policy_type,
        subset,
        conf: rule.conf.json().clone(),
        origins: rule
            .origins
            .iter()
            .map(|policy| Name { mesh: policy.mesh.to_string(), name: policy.name.to_string() })
            .collect(),
    }
}
