//! `rules`, `rules-inbound`, `rules-outbound`: compares merged rules of policies.

mod load;
mod places;
mod show;

use std::sync::Arc;

use kodiak_model::yaml;
use kodiak_rules::{Policy, Resources, inbound, outbound, precedence, subset};
use serde_json::{Value, json};

use crate::{
    case::{Case, Outcome, compare},
    deviations,
};
use load::{Document, documents};
use show::MetaForm;

/// The single inbound of these cases.
const INBOUND: &str = "127.0.0.1:80";
/// Name prefix of the policies that match the proxy, in cases without a proxy.
const MATCHED: &str = "matched-for-rules-";

pub(crate) fn run(case: &Case) -> anyhow::Result<Outcome> {
    let documents = match documents(&case.text()?)? {
        Ok(documents) => documents,
        Err(reason) => return Ok(Outcome::Skipped(reason)),
    };
    match case.name.split('/').next().unwrap_or_default() {
        "from" => expect(case, from(&documents)?, &[]),
        "to" => {
            let (policies, resources) = routes_and_policies(&documents);
            expect(case, to(&policies, &resources)?, &policies)
        }
        "single" => {
            let rule = subset::single(&policies(&documents));
            let shown: Vec<Value> = rule.iter().map(show::rule).collect();
            expect(case, json!({ "Rules": shown }), &[])
        }
        "inboundrules" => {
            let rules = inbound::rules(&sorted(matched(&documents)));
            expect(case, json!({ "rules": rules.iter().map(show::inbound_rule).collect::<Vec<_>>() }), &[])
        }
        "sort" => {
            let entries = outbound::entries(&sorted(matched(&documents)));
            expect(case, entries.iter().map(|entry| show::entry(entry, &documents)).collect(), &[])
        }
        "resourcerules" => resource_rules(case, &documents),
        other => Ok(Outcome::Skipped(format!("the folder {other} is unsupported"))),
    }
}

fn expect(case: &Case, found: Value, policies: &[Arc<Policy>]) -> anyhow::Result<Outcome> {
    against(case, ".golden.yaml", found, policies)
}

/// Without an expected output nothing is expected.
fn against(case: &Case, ending: &str, found: Value, policies: &[Arc<Policy>]) -> anyhow::Result<Outcome> {
    let mut expected = match case.beside(ending) {
        Some(text) => yaml::parse(&text)?.into_iter().next().map(|document| document.value).unwrap_or_default(),
        None => json!({}),
    };
    deviations::names::with_seeds_about_names(&mut expected, policies);
    Ok(compare(&show::sorted(expected), &show::sorted(found)))
}

/// In the order of the file: there is no proxy to match.
fn from(documents: &[Document]) -> anyhow::Result<Value> {
    let policies = policies(documents);
    let rules: Vec<Value> = subset::from(&policies)?.iter().map(show::rule).collect();
    let inbound: Vec<Value> = inbound::rules(&sorted(policies)).iter().map(show::inbound_rule).collect();
    Ok(json!({ "InboundRules": { INBOUND: inbound }, "Rules": { INBOUND: rules } }))
}

fn to(policies: &[Arc<Policy>], resources: &Resources) -> anyhow::Result<Value> {
    let rules: Vec<Value> = subset::to(policies, resources)?.iter().map(show::rule).collect();
    let resource_rules = show::resource_rules(&outbound::rules(policies, resources), MetaForm::Rest);
    Ok(json!({ "Rules": rules, "ResourceRules": resource_rules }))
}

/// Other policies reference the routes.
fn routes_and_policies(documents: &[Document]) -> (Vec<Arc<Policy>>, Resources) {
    let mut resources = Resources::default();
    let (routes, policies): (Vec<_>, Vec<_>) =
        policies(documents).into_iter().partition(|policy| policy.kind.name == "MeshHTTPRoute");
    for route in routes {
        resources.insert_route(route);
    }
    (policies, resources)
}

/// The same input for every combination of origin and sync target.
fn resource_rules(case: &Case, documents: &[Document]) -> anyhow::Result<Outcome> {
    for (place, form) in places::all() {
        let mut resources = Resources::default();
        let mut policies = Vec::new();
        for document in documents {
            let placed = place.put(document);
            match placed.policy() {
                Some(policy) => {
                    if document.name.starts_with(MATCHED) {
                        policies.push(policy.clone());
                    }
                    if policy.kind.name == "MeshHTTPRoute" {
                        resources.insert_route(policy);
                    }
                }
                None => resources.insert(placed.resource()),
            }
        }
        let policies = sorted(policies);
        let found = show::resource_rules(&outbound::rules(&policies, &resources), form);
        let outcome = against(case, &format!("/{place}.golden.yaml"), found, &policies)?;
        if let Outcome::Failed(text) = outcome {
            return Ok(Outcome::Failed(format!("{place}:\n{text}")));
        }
    }
    Ok(Outcome::Passed)
}

fn policies(documents: &[Document]) -> Vec<Arc<Policy>> {
    documents.iter().filter_map(Document::policy).collect()
}

fn matched(documents: &[Document]) -> Vec<Arc<Policy>> {
    let matched = documents.iter().filter(|document| document.name.starts_with(MATCHED));
    matched.filter_map(Document::policy).collect()
}

fn sorted(mut policies: Vec<Arc<Policy>>) -> Vec<Arc<Policy>> {
    policies.sort_by(|a, b| precedence(a, b));
    policies
}
