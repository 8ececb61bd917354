//! Rules of a proxy by kind: for callers, for destinations and for the proxy as a whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{
    PolicyFacts,
    kinds::dataplane::{self, Dataplane, GatewayType, Networking},
    policy::ConfShape,
    source_match::Match,
};
use kodiak_rules::{
    Gateway, Matched, Policy, Proxy, inbound,
    outbound::{Asked, Entry},
    precedence, route_hash,
    subset::{self, Rule},
};
use serde::Serialize;
use serde_json::Value;

use kodiak_inspection::inspect::{MeshView, is_for_whole_proxy};

use super::origin::ResourceMeta;

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProxyRules {
    pub(crate) resource: ResourceMeta,
    /// Matches by the hashes that matchers use.
    pub(crate) http_matches: Vec<HttpMatch>,
    pub(crate) rules: Vec<KindRules>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct HttpMatch {
    pub(crate) hash: String,
    #[serde(rename = "match")]
    pub(crate) matches: Value,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KindRules {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) to_rules: Vec<TagRule>,
    pub(crate) to_resource_rules: Vec<ResourceRule>,
    pub(crate) from_rules: Vec<AtInbound<TagRule>>,
    pub(crate) inbound_rules: Vec<AtInbound<InboundRule>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) proxy_rule: Option<ProxyRule>,
    pub(crate) warnings: Vec<String>,
}

/// For what has these tags.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct TagRule {
    pub(crate) conf: Value,
    pub(crate) matchers: Vec<Matcher>,
    pub(crate) origin: Vec<ResourceMeta>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Matcher {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) not: bool,
}

/// For a destination.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResourceRule {
    pub(crate) conf: Vec<Value>,
    pub(crate) origin: Vec<ItemOrigin>,
    pub(crate) resource_meta: ResourceMeta,
    pub(crate) resource_section_name: String,
}

/// One item of the list that a policy has.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemOrigin {
    pub(crate) resource_meta: ResourceMeta,
    pub(crate) rule_index: usize,
    /// Legacy name of the MeshService that the policy targets.
    #[serde(rename = "viaOldName", skip_serializing_if = "Option::is_none")]
    pub(crate) via_legacy_name: Option<String>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct AtInbound<T> {
    pub(crate) inbound: Inbound,
    pub(crate) rules: Vec<T>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Inbound {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    pub(crate) port: u32,
    /// `None` when it has none.
    pub(crate) tags: Option<BTreeMap<String, String>>,
}

/// For callers.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct InboundRule {
    pub(crate) conf: Vec<Value>,
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub(crate) matches: Option<Match>,
    pub(crate) origin: Vec<ItemOrigin>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct ProxyRule {
    pub(crate) conf: Value,
    pub(crate) origin: Vec<ResourceMeta>,
}

pub(crate) fn of_proxy(view: &MeshView, proxy: &Proxy) -> ProxyRules {
    build(view, ResourceMeta::new("Dataplane", &proxy.mesh, &proxy.name, &proxy.labels), proxy)
}

/// Rules of a proxy whose first selecting gateway is this one.
pub(crate) fn of_gateway(view: &MeshView, gateway: &Gateway) -> ProxyRules {
    let Gateway { mesh, name, labels, spec } = gateway;
    let tags = spec.selectors.first().map(|selector| selector.tags.clone()).unwrap_or_default();
    let own = dataplane::Gateway { gateway_type: Some(GatewayType::Builtin.into()), tags };
    let networking = Networking { gateway: Some(own), ..Networking::default() };
    let dataplane = Arc::new(Dataplane { networking: Some(networking), ..Dataplane::default() });
    let proxy = Proxy { mesh: mesh.clone(), name: name.clone(), labels: labels.clone(), dataplane, admission: None };
    build(view, ResourceMeta::new("MeshGateway", mesh, name, labels), &proxy)
}

fn build(view: &MeshView, resource: ResourceMeta, proxy: &Proxy) -> ProxyRules {
    let mut http_matches = BTreeMap::new();
    let mut rules = Vec::new();
    for (kind, facts, matched) in view.in_force(proxy, |_| true) {
        if facts.conf == ConfShape::Routes {
            http_matches.extend(hashes(&matched.proxy));
        }
        let of_kind = of_kind(view, kind.name, facts, &matched, &proxy.dataplane);
        if !of_kind.is_empty() {
            rules.push(of_kind);
        }
    }
    let http_matches = http_matches.into_iter().map(|(hash, matches)| HttpMatch { hash, matches }).collect();
    ProxyRules { resource, http_matches, rules }
}

fn of_kind(
    view: &MeshView,
    kind: &'static str,
    facts: PolicyFacts,
    matched: &Matched,
    dataplane: &Dataplane,
) -> KindRules {
    let mut of_kind = KindRules {
        kind,
        to_rules: Vec::new(),
        to_resource_rules: Vec::new(),
        from_rules: Vec::new(),
        inbound_rules: Vec::new(),
        proxy_rule: None,
        warnings: matched.warnings.clone(),
    };
    if facts.to {
        of_kind.to_resource_rules = to_resources(view, &matched.proxy);
        if view.has_legacy_destinations() {
            match subset::to(&matched.proxy, &view.resources) {
                Ok(rules) => of_kind.to_rules = rules.iter().map(tag_rule).collect(),
                Err(trouble) => of_kind.warnings.push(format!("couldn't create To rules: {trouble}")),
            }
        }
    }
    if facts.from || facts.rules {
        for (inbound, policies) in places(matched, dataplane) {
            match subset::from(&policies) {
                Ok(rules) if rules.is_empty() => (),
                Ok(rules) => {
                    let rules = rules.iter().map(tag_rule).collect();
                    of_kind.from_rules.push(AtInbound { inbound: inbound.clone(), rules });
                }
                Err(trouble) => of_kind.warnings.push(format!("couldn't create From rules: {trouble}")),
            }
            let rules: Vec<_> = inbound::rules(&policies).into_iter().map(inbound_rule).collect();
            if !rules.is_empty() {
                of_kind.inbound_rules.push(AtInbound { inbound, rules });
            }
        }
    }
    if is_for_whole_proxy(facts) {
        of_kind.proxy_rule = subset::single(&matched.proxy)
            .map(|rule| ProxyRule { conf: rule.conf.json().clone(), origin: metas(&rule.origins) });
    }
    of_kind
}

impl KindRules {
    fn is_empty(&self) -> bool {
        let Self { kind: _, to_rules, to_resource_rules, from_rules, inbound_rules, proxy_rule, warnings } = self;
        to_rules.is_empty()
            && to_resource_rules.is_empty()
            && from_rules.is_empty()
            && inbound_rules.is_empty()
            && proxy_rule.is_none()
            && warnings.is_empty()
    }
}

/// Inbounds and listeners of a proxy by port, with their policies.
fn places(matched: &Matched, dataplane: &Dataplane) -> Vec<(Inbound, Vec<Arc<Policy>>)> {
    let given = |tags: &BTreeMap<String, String>| Some(tags.clone()).filter(|tags| !tags.is_empty());
    let mut places = Vec::new();
    for (n, inbound) in dataplane.inbounds().iter().enumerate() {
        let name = Some(inbound.name.clone()).filter(|name| !name.is_empty());
        let place = Inbound { name, port: inbound.port, tags: given(&inbound.tags) };
        places.extend(matched.inbounds.get(&n).map(|policies| (place, policies.clone())));
    }
    for (n, listener) in dataplane.listeners().iter().enumerate() {
        let place = Inbound { name: None, port: listener.port, tags: None };
        places.extend(matched.listeners.get(&n).map(|policies| (place, policies.clone())));
    }
    for port in matched.gateway.keys().map(|listener| listener.port).collect::<BTreeSet<_>>() {
        let tags = dataplane.gateway().and_then(|gateway| given(&gateway.tags));
        places.push((Inbound { name: None, port, tags }, at_gateway_port(matched, port)));
    }
    places.sort_by_key(|(place, _)| place.port);
    places
}

/// A port of a gateway is one place, whatever hostnames it serves.
fn at_gateway_port(matched: &Matched, port: u32) -> Vec<Arc<Policy>> {
    let at_port = matched.gateway.iter().filter(|(listener, _)| listener.port == port);
    let mut policies: Vec<_> = at_port.flat_map(|(_, policies)| policies).cloned().collect();
    policies.sort_by(|a, b| precedence(a, b));
    policies.dedup_by(|a, b| a.name == b.name);
    policies
}

/// By the name of the resource, then as KRIs are ordered.
fn to_resources(view: &MeshView, policies: &[Arc<Policy>]) -> Vec<ResourceRule> {
    let mut rules: Vec<ResourceRule> = Asked::new(policies, view.resolution())
        .rules(&view.resources)
        .into_values()
        .map(|rule| {
            let origin = rule.origins.iter().map(destination_origin);
            ResourceRule {
                conf: rule.confs.iter().map(|conf| conf.json().clone()).collect(),
                origin: origin.collect(),
                resource_meta: ResourceMeta::of_resource(&rule.resource),
                resource_section_name: rule.section,
            }
        })
        .collect();
    rules.sort_by(|a, b| a.resource_meta.name.cmp(&b.resource_meta.name));
    rules
}

fn tag_rule(rule: &Rule) -> TagRule {
    let matchers =
        rule.subset.iter().map(|tag| Matcher { key: tag.key.clone(), value: tag.value.clone(), not: tag.not });
    TagRule { conf: rule.conf.json().clone(), matchers: matchers.collect(), origin: metas(&rule.origins) }
}

fn inbound_rule(rule: inbound::InboundRule) -> InboundRule {
    let origin = vec![item_origin(&rule.policy, rule.index)];
    InboundRule { conf: vec![rule.conf.json().clone()], matches: rule.matches, origin }
}

fn item_origin(policy: &Policy, rule_index: usize) -> ItemOrigin {
    ItemOrigin { resource_meta: ResourceMeta::of_policy(policy), rule_index, via_legacy_name: None }
}

fn destination_origin(entry: &Entry) -> ItemOrigin {
    ItemOrigin { via_legacy_name: entry.legacy_name().map(str::to_owned), ..item_origin(&entry.policy, entry.index) }
}

fn metas(policies: &[Arc<Policy>]) -> Vec<ResourceMeta> {
    policies.iter().map(|policy| ResourceMeta::of_policy(policy)).collect()
}

/// The matches of all routes, by their hashes.
fn hashes(policies: &[Arc<Policy>]) -> impl Iterator<Item = (String, Value)> {
    let items = policies.iter().flat_map(|policy| &policy.body.to);
    let rules = items.flat_map(|item| item.conf.json().get("rules").and_then(Value::as_array).into_iter().flatten());
    rules.filter_map(|rule| {
        let matches = rule.get("matches")?;
        Some((route_hash(matches), matches.clone()))
    })
}
