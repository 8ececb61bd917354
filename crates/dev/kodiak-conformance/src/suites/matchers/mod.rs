//! `matchers`: compares the policies that match a proxy, or the resulting rules.
//!
//! The folder determines what is compared. A folder that is named after a case has an output for each combination of
//! origins of the proxy and the policies.

mod input;
mod metas;

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Context as _;
use kodiak_kinds::kinds;
use kodiak_model::{kinds::dataplane::Dataplane, yaml};
use kodiak_rules::{Matched, Policy, Proxy, Resources, Shadow, egress, inbound, outbound, subset};
use serde_json::{Map, Value, json};

use self::{
    input::{CannotRun, Input, Read, documents},
    metas::Origins,
};
use super::printed;
use crate::{
    case::{Case, Outcome, compare},
    lenient,
};

pub(crate) fn run(case: &Case) -> anyhow::Result<Outcome> {
    let expected = yaml::parse(&case.text()?)?.into_iter().next().context("the expected output is empty")?.value;
    match found(case) {
        Ok(found) => Ok(compare(&expected, &found)),
        Err(CannotRun::Missing(what)) => Ok(Outcome::Skipped(what)),
        Err(CannotRun::Broken(error)) => Err(error),
    }
}

fn found(case: &Case) -> Result<Value, CannotRun> {
    let folders: Vec<&str> = case.name.split('/').collect();
    let origins = Origins::of(folders.last().copied().unwrap_or_default());
    let text = |ending: &str| match origins {
        None => case.beside(ending),
        Some(_) => case.above(ending),
    };
    let mut input = Input::default();
    for mut read in documents(&text(".policies.yaml").context("there are no policies")?)? {
        if let (Some(origins), true) = (&origins, read.kind.is_policy()) {
            read.named = origins.policy(read.named);
        }
        input.add(read)?;
    }
    for read in text(".mes.yaml").map(|text| documents(&text)).transpose()?.into_iter().flatten() {
        input.add(read)?;
    }
    let compared = folders.iter().rev().nth(if origins.is_some() { 2 } else { 1 }).copied().unwrap_or_default();
    if let Some(service) = text(".es.yaml") {
        return Ok(at_egress(&input, &service)?);
    }
    let proxy = documents(&text(".dataplane.yaml").context("there is no proxy")?)?;
    let proxy = proxy.into_iter().next().context("there is no proxy")?;
    let proxy = match origins {
        Some(origins) => Read { named: origins.proxy(proxy.named), ..proxy },
        None => proxy,
    };
    let kind = input.kind()?;
    let mesh = &input.of_kind(kind).first().context("there are no policies")?.mesh.clone();
    let proxy = input::proxy(&proxy, mesh)?;
    let matched = input.policy_index.matched_by(kind.name, &proxy, Shadow::Ignored);
    Ok(match compared {
        "dataplanepolicies" | "dataplane-kind" => policies(&input, &matched.proxy),
        "fromrules" => from_rules(&at_inbounds(&proxy.dataplane, &matched))?,
        "torules" | "meshexternalservice" => to_rules(&matched.proxy, &input.resources())?,
        "meshgateways" => gateway_rules(&proxy, &matched, &input.resources())?,
        other => return Err(CannotRun::Missing(format!("the folder {other} is unsupported"))),
    })
}

fn policies(input: &Input, matched: &[Arc<Policy>]) -> Value {
    let items = matched.iter().map(|policy| {
        let mut item = printed::policy(policy);
        item["spec"] = input.spec(policy).cloned().unwrap_or_default();
        item
    });
    json!({ "items": items.collect::<Vec<_>>(), "next": null, "total": 0 })
}

/// By address and port.
type ByPlace = BTreeMap<String, Vec<Arc<Policy>>>;

fn at_inbounds(dataplane: &Dataplane, matched: &Matched) -> ByPlace {
    let address = dataplane.networking.as_ref().map_or("", |networking| &networking.address);
    let inbounds = matched.inbounds.iter().map(|(n, policies)| {
        let inbound = &dataplane.inbounds()[*n];
        (format!("{}:{}", inbound.address_or(address), inbound.port), policies.clone())
    });
    let listeners = matched.listeners.iter().map(|(n, policies)| {
        let listener = &dataplane.listeners()[*n];
        (format!("{}:{}", listener.address_or(address), listener.port), policies.clone())
    });
    inbounds.chain(listeners).collect()
}

fn from_rules(places: &ByPlace) -> anyhow::Result<Value> {
    let (mut rules, mut inbound_rules) = (Map::new(), Map::new());
    for (place, policies) in places {
        rules.insert(place.clone(), printed::rules(&subset::from(policies).map_err(rule_error)?));
        inbound_rules.insert(place.clone(), printed::inbound_rules(&inbound::rules(policies)));
    }
    Ok(json!({ "Rules": rules, "InboundRules": inbound_rules }))
}

fn to_rules(policies: &[Arc<Policy>], resources: &Resources) -> anyhow::Result<Value> {
    let rules = printed::rules(&subset::to(policies, resources).map_err(rule_error)?);
    let resource_rules = printed::resource_rules(&outbound::rules(policies, resources));
    Ok(json!({ "Rules": rules, "ResourceRules": resource_rules }))
}

fn gateway_rules(proxy: &Proxy, matched: &Matched, resources: &Resources) -> anyhow::Result<Value> {
    let address = proxy.dataplane.networking.as_ref().map_or("", |networking| &networking.address);
    let (mut places, mut by_hostname) = (at_inbounds(&proxy.dataplane, matched), Map::new());
    for (listener, policies) in &matched.gateway {
        let place = format!("{address}:{}", listener.port);
        by_hostname.insert(format!("{place}:{}", listener.hostname), to_rules(policies, resources)?);
        // Policies of several hostnames of a port, without duplicates. All are in the order of the whole proxy.
        let there = places.remove(&place).unwrap_or_default();
        let either = |policy: &&Arc<Policy>| there.iter().chain(policies).any(|each| Arc::ptr_eq(each, policy));
        let all = matched.proxy.iter().filter(either).cloned().collect();
        places.insert(place, all);
    }
    let by_listener: Result<Map<String, Value>, anyhow::Error> =
        places.iter().map(|(place, policies)| Ok((place.clone(), to_rules(policies, resources)?))).collect();
    let from = from_rules(&places)?;
    Ok(json!({
        "FromRules": from["Rules"],
        "InboundRules": from["InboundRules"],
        "ToRules": { "ByListener": by_listener?, "ByListenerAndHostname": by_hostname },
    }))
}

/// ExternalService is an unsupported kind: only its tags are used.
fn at_egress(input: &Input, service: &str) -> anyhow::Result<Value> {
    let service = lenient::parse(service)?.into_iter().next().context("there is no service")?.value;
    let tags = serde_json::from_value(service["tags"].clone()).context("tags are texts")?;
    let kind = input.kind()?;
    let facts = kinds().by_name(kind.name).and_then(|kind| kind.policy).context("it is a policy")?;
    let all = input.of_kind(kind);
    // The egress has no address of its own here.
    let place = |policies| ByPlace::from([(":0".to_owned(), policies)]);
    if facts.from {
        return from_rules(&place(egress::about(&all, &tags)));
    }
    let mut rules = from_rules(&place(egress::turned(&all, &tags)))?;
    rules["InboundRules"] = Value::Null;
    Ok(rules)
}

fn rule_error(error: subset::RuleError) -> anyhow::Error {
    match error {
        subset::RuleError::Unfit(why) => anyhow::anyhow!(why),
        subset::RuleError::TooMany { combinations, .. } => anyhow::anyhow!("{combinations} combinations of tags"),
    }
}
