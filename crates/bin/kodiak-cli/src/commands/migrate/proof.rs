//! Verifies that converted policies change no proxy: generates the configuration of each with both versions.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use kodiak_client::Client;
use kodiak_terminal::Table;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::report::count;
use crate::session::Session;

/// Interval of progress output while the control plane computes.
const TICK: Duration = Duration::from_millis(100);

/// Difference between two sets of policies, for all proxies.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Proof {
    /// Number of proxies.
    pub(super) proxies: usize,
    pub(super) changed: Vec<Changed>,
    /// Proxies with resources that would fail validation, so that these stay at their last good version.
    pub(super) faulty: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Changed {
    pub(super) name: String,
    pub(super) counts: BTreeMap<String, usize>,
}

/// Fields of the response that are needed here.
#[derive(Deserialize)]
struct ProofResponse {
    changes: Vec<Effect>,
    proxies: Vec<Value>,
    unchanged: usize,
    faults: Vec<Faulty>,
}

#[derive(Deserialize)]
struct Effect {
    effect: String,
}

impl Effect {
    fn is_one(&self) -> bool {
        self.effect != "unchanged"
    }
}

#[derive(Deserialize)]
struct Faulty {
    name: String,
}

impl Proof {
    /// `before` are documents that may not be stored: changes that they make themselves do not count. Without any, the
    /// stored resources are compared with `after`.
    pub(super) async fn of(
        session: &Session,
        client: &Client,
        mesh: &str,
        before: &[&Value],
        after: &[&Value],
    ) -> anyhow::Result<Self> {
        if after.is_empty() {
            return Ok(Self::default());
        }
        let spinner = session.terminal.spinner();
        spinner.set_message(format!(
            "Generating the configuration of every proxy of mesh {mesh:?} before and after the conversion"
        ));
        spinner.enable_steady_tick(TICK);
        let mut own = None;
        if !before.is_empty() && ask(client, mesh, before, false).await?.changes.iter().any(Effect::is_one) {
            own = Some(ask(client, mesh, before, true).await?);
        }
        let proof = Self::between(own, ask(client, mesh, after, !before.is_empty()).await?);
        spinner.finish_and_clear();
        Ok(proof)
    }

    /// Compares both with the stored resources. A proxy with the same difference in both does not change between them;
    /// of added Envoy resources only the names are known, so a proxy with added ones counts as changed.
    fn between(before: Option<ProofResponse>, after: ProofResponse) -> Self {
        let proxies = after.proxies.len() + after.unchanged + after.faults.len();
        let before = before.map(|before| before.proxies).unwrap_or_default();
        let by_name = |all: Vec<Value>| all.into_iter().map(|proxy| (name(&proxy), proxy)).collect::<BTreeMap<_, _>>();
        let (mut before, after_all) = (by_name(before), by_name(after.proxies));
        let mut changed = Vec::new();
        for (name, proxy) in after_all {
            let same = before.remove(&name).is_some_and(|before| before == proxy) && is_told_in_full(&proxy);
            if !same {
                let counts = serde_json::from_value(proxy["counts"].clone()).unwrap_or_default();
                changed.push(Changed { name, counts });
            }
        }
        // A proxy that only the unconverted documents change counts, too.
        changed.extend(before.into_keys().map(|name| Changed { name, counts: BTreeMap::new() }));
        Self { proxies, changed, faulty: after.faults.into_iter().map(|faulty| faulty.name).collect() }
    }

    pub(super) fn is_clean(&self) -> bool {
        self.changed.is_empty() && self.faulty.is_empty()
    }

    pub(super) fn show(&self) -> String {
        let proxies = count(self.proxies, "proxy", "proxies");
        if self.is_clean() {
            return format!("Proof: {proxies} compared before and after the conversion: 0 proxies change");
        }
        let mut table = Table::new(["PROXY", "ADDED", "REMOVED", "CHANGED"]);
        for Changed { name, counts } in &self.changed {
            let counts = ["added", "removed", "changed"]
                .map(|what| counts.get(what).map_or("-".to_owned(), ToString::to_string));
            table.row([name.clone()].into_iter().chain(counts));
        }
        let mut text = if self.changed.is_empty() { String::new() } else { table.show() + "\n\n" };
        if !self.faulty.is_empty() {
            let faulty = self.faulty.join(", ");
            let _ = writeln!(
                text,
                "Resources of these would fail validation, and stay at their last good version: {faulty}\n"
            );
        }
        let changed = count(self.changed.len() + self.faulty.len(), "proxy changes", "proxies change");
        text + &format!("Proof: {proxies} compared before and after the conversion: {changed}")
    }
}

fn name(proxy: &Value) -> String {
    proxy["name"].as_str().unwrap_or_default().to_owned()
}

/// The server limits details to some proxies, and shows only the size of added resources.
fn is_told_in_full(proxy: &Value) -> bool {
    proxy["added"].as_array().is_some_and(Vec::is_empty)
}

async fn ask(client: &Client, mesh: &str, documents: &[&Value], full: bool) -> anyhow::Result<ProofResponse> {
    let answer = client.diff(mesh, &json!({ "resources": documents }), full).await?;
    ProofResponse::deserialize(&answer).context("cannot parse the response of the control plane")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(proxies: &Value) -> ProofResponse {
        let all = json!({ "changes": [], "proxies": proxies, "unchanged": 2, "faults": [] });
        ProofResponse::deserialize(&all).unwrap()
    }

    fn proxy(name: &str, patch: u32, added: &Value) -> Value {
        let changed = json!([{ "name": "c", "patch": [patch] }]);
        json!({ "name": name, "counts": { "added": 0, "removed": 0, "changed": 1 }, "added": added, "removed": [], "changed": changed })
    }

    fn names(proof: &Proof) -> Vec<&str> {
        proof.changed.iter().map(|changed| changed.name.as_str()).collect()
    }

    #[test]
    fn counts_every_difference_from_the_stored_resources() {
        let proof = Proof::between(None, answer(&json!([proxy("a", 1, &json!([]))])));
        assert_eq!((names(&proof), proof.proxies, proof.is_clean()), (vec!["a"], 3, false));
        let clean = Proof::between(None, answer(&json!([])));
        assert!(clean.is_clean());
        assert_eq!(clean.show(), "Proof: 2 proxies compared before and after the conversion: 0 proxies change");
    }

    #[test]
    fn ignores_changes_that_the_files_make_themselves() {
        let new = json!([{ "name": "x", "bytes": 5 }]);
        let before = json!([
            proxy("same", 1, &json!([])),
            proxy("other", 1, &json!([])),
            proxy("gone", 1, &json!([])),
            proxy("added", 1, &new)
        ]);
        let after = json!([
            proxy("same", 1, &json!([])),
            proxy("other", 2, &json!([])),
            proxy("come", 1, &json!([])),
            proxy("added", 1, &new)
        ]);
        let proof = Proof::between(Some(answer(&before)), answer(&after));
        assert_eq!(names(&proof), ["added", "come", "other", "gone"]);
    }
}
