//! A user changes labels of a Dataplane, and another SPIFFE ID follows from them: the step of the mesh that keeps the one before
//! until all clients expect the new one.

use std::sync::Arc;

use kodiak_rollout::{Issuers, Rollout};
use kodiak_rules::Proxy;

use crate::{Issuer, applied::as_presented, issuer_of, vouched::vouched_labels};

/// Step to store in the transaction that changes the labels of a Dataplane. `None` if its SPIFFE ID stays.
pub fn relabelled(step: &Rollout, old: &Proxy, new: &Proxy) -> Option<Rollout> {
    let is_same = |issuers: &Issuers| {
        spiffe_id(issuers, old) == spiffe_id(issuers, new)
            || matches!(as_presented(issuers, old), std::borrow::Cow::Owned(_))
    };
    if step.all_issuers().all(is_same) {
        return None;
    }
    Some(step.keeping(&old.name, &Arc::new(vouched_labels(old))))
}

fn spiffe_id(issuers: &Issuers, proxy: &Proxy) -> Option<String> {
    match issuer_of(issuers, proxy)? {
        Issuer::Identity { spiffe_id, .. } => Some(spiffe_id),
        Issuer::Backend(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use kodiak_model::kinds::dataplane::Admission;
    use kodiak_rollout::{AppliedIdentity, AppliedProvider};

    use super::*;
    use crate::expected_ids;

    const WORKLOAD: &str = "kuma.io/workload";

    fn target(signer: Option<&str>) -> Rollout {
        let identity = AppliedIdentity {
            name: "identity".into(),
            trust_domain: "td".into(),
            path: Some("/workload/{{ .Workload }}".into()),
            provider: Some(AppliedProvider::Bundled { ca: "ca".into(), seconds: 60 }),
            ..AppliedIdentity::default()
        };
        let issuers = Issuers {
            signer: signer.map(kodiak_rollout::AppliedBackend::from),
            identities: vec![Arc::new(identity)],
            ..Issuers::default()
        };
        Rollout { issuers, call: true, ..Rollout::default() }
    }

    fn proxy(workload: Option<&str>) -> Proxy {
        let labels = workload.map(|workload| (WORKLOAD.to_owned(), workload.to_owned()));
        Proxy {
            mesh: "default".into(),
            name: "web-1".into(),
            labels: Arc::new(labels.into_iter().collect()),
            dataplane: Arc::default(),
            admission: None,
        }
    }

    /// Step of the mesh, and the Dataplane, as they are stored together.
    type State = (Rollout, Proxy);

    fn change(state: &State, workload: Option<&str>) -> State {
        let new = proxy(workload);
        (relabelled(&state.0, &state.1, &new).unwrap_or_else(|| state.0.clone()), new)
    }

    /// Clients at one state accept the server at the other.
    #[track_caller]
    fn assert_safe(one: &State, other: &State) {
        for (client, server) in [(one, one), (one, other), (other, one), (other, other)] {
            let Some(presented) = spiffe_id(&server.0.issuers, &server.1) else { continue };
            let expected = expected_ids(&client.0, &client.1);
            assert!(expected.contains(&presented), "{presented} is not in {expected:?} of {client:#?}");
        }
    }

    /// All states to the target, each of which is safe beside the one before.
    fn walk(from: &State, to: &Rollout) -> Vec<State> {
        let mut states = vec![from.clone()];
        while let Some((_, next)) = states.last().unwrap().0.next(to, false) {
            let next = (next, from.1.clone());
            assert_safe(states.last().unwrap(), &next);
            states.push(next);
            assert!(states.len() < 8, "no end: {states:#?}");
        }
        states
    }

    #[test]
    fn clients_expect_both_before_the_server_presents_the_new_one_and_the_old_one_goes_last() {
        let target = target(None);
        let before = (target.clone(), proxy(Some("old")));
        let states = walk(&change(&before, Some("new")), &target);
        let id = |name: &str| format!("spiffe://td/workload/{name}");
        let shown: Vec<_> = states
            .iter()
            .map(|(step, proxy)| (spiffe_id(&step.issuers, proxy).unwrap(), expected_ids(step, proxy).len()))
            .collect();
        assert_eq!(shown, [(id("old"), 2), (id("new"), 2), (id("new"), 1)]);
        let tokens: std::collections::BTreeSet<String> = states.iter().map(|(step, _)| step.token()).collect();
        assert_eq!(tokens.len(), states.len(), "each is acknowledged by itself");
    }

    #[test]
    fn every_change_of_labels_is_safe_at_every_step() {
        const LABELS: [Option<&str>; 4] = [None, Some("a"), Some("b"), Some("c")];
        let mut walked = 0;
        for target in [target(None), target(Some("backend"))] {
            for number in 0..64 {
                let [first, second, third] = [number / 16, number / 4 % 4, number % 4].map(|n: usize| LABELS[n]);
                let start = (target.clone(), proxy(first));
                let changed = change(&start, second);
                assert_safe(&start, &changed);
                for state in walk(&changed, &target) {
                    let again = change(&state, third);
                    assert_safe(&state, &again);
                    let end = walk(&again, &target).pop().unwrap();
                    assert_eq!(end.0, target);
                    walked += 1;
                }
            }
        }
        assert!(walked > 200, "{walked}");
    }

    #[test]
    fn other_labels_change_nothing() {
        let target = target(None);
        let old = proxy(Some("web"));
        let mut new = old.clone();
        Arc::make_mut(&mut new.labels).insert("team".to_owned(), "shop".to_owned());
        assert_eq!(relabelled(&target, &old, &new), None);
    }

    /// A claim does not become an identity because a user overwrites it.
    #[test]
    fn claims_of_a_proxy_are_not_kept() {
        let target = target(None);
        let mut old = proxy(Some("payments"));
        old.admission = Some(Arc::new(Admission { name: true, ..Admission::default() }));
        assert_eq!(spiffe_id(&target.issuers, &old), None);
        let step = relabelled(&target, &old, &proxy(Some("web"))).unwrap();
        assert_eq!(spiffe_id(&step.issuers, &proxy(Some("web"))), None);
        assert_eq!(expected_ids(&step, &proxy(Some("web"))).len(), 1);
    }
}
