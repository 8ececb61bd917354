//! Trimming against the Envoys: no destination is lost that answers, and few are kept that do not.

use std::collections::BTreeMap;

use kodiak_inspection::calls::Trimming;
use kodiak_model::labels::REACHABILITY;
use kodiak_model::{Cancellation, ProxyKey};
use kodiak_oracle::meshes::{MESH, Mesh, all_meshes};
use kodiak_oracle::settled::Settled;
use kodiak_oracle::{Answer, Attempt, Caller, Oracle, Reason};
use kodiak_reachability::Mode;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::Value;

use crate::answers::backend;

/// Meshes whose kept destinations are counted.
const MESHES: usize = 96;

/// The documents without modes of their own, so that the setting decides.
fn documents(mesh: &Mesh) -> Vec<Value> {
    let mut documents = mesh.documents();
    for labels in documents.iter_mut().filter_map(|document| document.get_mut("labels")?.as_object_mut()) {
        labels.remove(REACHABILITY);
    }
    documents
}

/// Kept destinations of redirected clients, by what becomes of their calls.
#[derive(Debug, Default)]
struct Kept {
    answered: usize,
    /// They stay, so that a service that scales to zero keeps its listener.
    without_endpoints: usize,
    /// A server accepts plain text, but denies the certificate of the client.
    plain_text: usize,
    /// All others, by the reason.
    refused: BTreeMap<String, usize>,
}

impl Kept {
    fn count(&mut self, oracle: &Oracle, client: &str, address: &str, port: u16) {
        let attempts = oracle.attempts(client, address, port);
        match Answer::of(attempts.iter().map(|attempt| attempt.answer.clone())) {
            Answer::Answered | Answer::Unknown(_) | Answer::Refused(Reason::Responded(_)) => self.answered += 1,
            Answer::Refused(Reason::NoEndpoints) => self.without_endpoints += 1,
            _ if attempts.iter().any(|attempt| accepts_plain_text(oracle, attempt)) => self.plain_text += 1,
            Answer::Refused(reason) => *self.refused.entry(format!("{reason:?}")).or_default() += 1,
        }
    }

    /// Share of the destinations with endpoints that should have been removed, in percent.
    fn excess(&self) -> usize {
        let refused: usize = self.refused.values().sum();
        100 * refused / (self.answered + self.plain_text + refused).max(1)
    }
}

fn accepts_plain_text(oracle: &Oracle, attempt: &Attempt) -> bool {
    let Some((address, port)) = &attempt.endpoint else { return false };
    oracle.admits(Caller::PlainText, address, *port).is_some_and(|answer| answer.is_answered())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Meshes with every issuer of certificates, every mode of mutual TLS, and routes; also in the middle of a rollout.
    #[test]
    fn no_destination_is_lost_that_answers(mesh in all_meshes(), before in proptest::option::of(all_meshes())) {
        let settled = Settled::of(documents(&mesh)).map_err(TestCaseError::fail)?;
        let settled = match before {
            Some(before) => settled.moving_from(&Settled::of(documents(&before)).unwrap()),
            None => settled,
        };
        let [everything, trimmed] = [Mode::Off, Mode::On].map(|mode| settled.oracle(mode));
        for sidecar in mesh.sidecars.iter().filter(|sidecar| sidecar.is_redirected()) {
            for (name, address, port) in settled.destinations() {
                let address = address.to_string();
                let expected = everything.call(&sidecar.name, &address, port);
                let found = trimmed.call(&sidecar.name, &address, port);
                let is_answer = |answer: &Answer| matches!(answer, Answer::Answered | Answer::Refused(Reason::Responded(_)));
                prop_assert!(!is_answer(&expected) || found == expected, "{} calls {name}: {found}", sidecar.name);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Reports name the outbounds that the engine removes, also in the middle of a rollout.
    #[test]
    fn report_names_the_outbounds_that_are_removed(mesh in all_meshes(), before in proptest::option::of(all_meshes())) {
        let settled = Settled::of(documents(&mesh)).map_err(TestCaseError::fail)?;
        let settled = match before {
            Some(before) => settled.moving_from(&Settled::of(documents(&before)).unwrap()),
            None => settled,
        };
        let [everything, trimmed] = [Mode::Off, Mode::On].map(|mode| settled.oracle(mode));
        let trimming = Trimming::of(&settled.world, MESH, Mode::On, &Cancellation::never()).unwrap();
        for sidecar in mesh.sidecars.iter().filter(|sidecar| sidecar.is_redirected()) {
            let proxy = settled.world.proxy(&ProxyKey::new(MESH, &sidecar.name)).unwrap();
            let client = trimming.client(proxy);
            for (name, address, port) in settled.destinations() {
                let has = |oracle: &Oracle| oracle.has_listener(&sidecar.name, &address.to_string(), port);
                let is_trimmed = trimming.exempt(proxy).is_none() && client.trims_port(&backend(&settled.world, &name, port));
                prop_assert_eq!(has(&trimmed), has(&everything) && !is_trimmed, "{} calls {}:{}", sidecar.name, name, port);
            }
        }
    }
}

#[test]
fn few_destinations_are_kept_that_do_not_answer() {
    let mut runner = TestRunner::deterministic();
    let mut kept = Kept::default();
    for _ in 0..MESHES {
        let mesh = all_meshes().new_tree(&mut runner).unwrap().current();
        let settled = Settled::of(documents(&mesh)).unwrap();
        let oracle = settled.oracle(Mode::On);
        for sidecar in mesh.sidecars.iter().filter(|sidecar| sidecar.is_redirected()) {
            for (_, address, port) in settled.destinations() {
                if oracle.has_listener(&sidecar.name, &address.to_string(), port) {
                    kept.count(&oracle, &sidecar.name, &address.to_string(), port);
                }
            }
        }
    }
    println!("{kept:?} {}", kept.excess());
    assert!(kept.answered > 0 && kept.excess() < 5, "{kept:?}");
}
