//! Why inbounds of a proxy are ready or not, and the decision that follows. Pure.

use kodiak_model::kinds::dataplane::{Dataplane, DataplaneStatus, HeldInbound, Inbound};
use kodiak_xds::health::{Findings, is_probed};
use tokio::time::Instant;

/// Observations of one proxy that decide about its inbounds.
#[derive(Clone, Default)]
pub(super) struct Causes {
    pub(super) hold: Option<Hold>,
    pub(super) probes: Option<Probes>,
    /// The decision may differ from the stored Dataplane.
    pub(super) due: bool,
    /// Last write that probes caused.
    pub(super) written: Option<Instant>,
}

/// Inbounds are held back, whatever probes report.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hold {
    pub(super) cause: Cause,
    /// Inbounds as they were before.
    pub(super) before: Vec<HeldInbound>,
    /// Revision of the store at which the Dataplane existed; [`NOT_STORED`] while it is being registered.
    pub(super) stored_at: u64,
}

pub(super) const NOT_STORED: u64 = u64::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Envoy opens its listeners only once it has all of its configuration. `None` while the proxy is registered.
    Arriving { stream: Option<u64> },
    /// The process of the proxy is about to end. Also a mark in the status of the Dataplane, for all control planes.
    Ending(Ending),
    /// Nothing any more: the next write gives the inbounds back.
    Arrived,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The proxy asked for it.
    Draining,
    /// Envoy fails its own `/ready`, as it does from the start of a drain.
    NotLive,
}

/// Results of the health checks that one stream reported.
#[derive(Clone)]
pub(super) struct Probes {
    pub(super) stream: u64,
    pub(super) findings: Option<Findings>,
    liveness: Liveness,
}

/// Reports of one stream about Envoy itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Liveness {
    /// No report yet, or none that had an answer.
    Unknown,
    Live,
    /// Not live in the first report with an answer: the check may have had no time to run, or Envoy is still starting.
    Starting,
    NotLive,
}

impl Probes {
    pub(super) fn new(stream: u64) -> Self {
        Self { stream, findings: None, liveness: Liveness::Unknown }
    }

    /// Takes what a report says about Envoy itself, and returns whether that is news.
    pub(super) fn observe(&mut self, is_live: Option<bool>) -> bool {
        let next = match (self.liveness, is_live) {
            (known, None) => known,
            (_, Some(true)) => Liveness::Live,
            (Liveness::Unknown, Some(false)) => Liveness::Starting,
            (_, Some(false)) => Liveness::NotLive,
        };
        let is_news = next != self.liveness;
        self.liveness = next;
        is_news
    }

    pub(super) fn is_live(&self) -> bool {
        self.liveness == Liveness::Live
    }

    pub(super) fn is_not_live(&self) -> bool {
        self.liveness == Liveness::NotLive
    }
}

impl Causes {
    pub(super) fn findings(&self) -> Option<&Findings> {
        self.probes.as_ref()?.findings.as_ref()
    }

    pub(super) fn is_arrived(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.cause == Cause::Arrived)
    }

    pub(super) fn is_not_live(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.cause == Cause::Ending(Ending::NotLive))
    }

    /// The status that goes with the decision.
    pub(super) fn apply_to_status(&self, mut status: DataplaneStatus) -> DataplaneStatus {
        match &self.hold {
            Some(Hold { cause: Cause::Ending(ending), before, .. }) => {
                match ending {
                    Ending::Draining => status.draining = true,
                    Ending::NotLive => status.not_live = true,
                }
                status.held.clone_from(before);
            }
            Some(Hold { cause: Cause::Arrived, .. }) => {
                status.not_live = false;
                status.held.clear();
            }
            Some(Hold { cause: Cause::Arriving { .. }, .. }) | None => (),
        }
        status
    }

    /// Applies the decision to a Dataplane, and returns whether that changed it.
    pub(super) fn apply(&self, dataplane: &mut Dataplane, probing: bool) -> bool {
        let apply_findings = |dataplane: &mut Dataplane, may_serve: bool| {
            self.findings().is_some_and(|findings| findings.apply(dataplane, may_serve))
        };
        match &self.hold {
            None => apply_findings(dataplane, true),
            // Inbounds that were ready before stay so: the proxy went on serving while it was not connected.
            Some(Hold { cause: Cause::Arriving { .. }, .. }) => apply_findings(dataplane, false),
            Some(Hold { cause: Cause::Ending(_), .. }) => !hold_all(dataplane).is_empty(),
            Some(Hold { cause: Cause::Arrived, before, .. }) => {
                let restored = restore(dataplane, before, probing);
                apply_findings(dataplane, true) || restored
            }
        }
    }
}

impl Hold {
    /// The process that serves this Dataplane is about to end. Remembers the inbounds that are ready now, and those that
    /// were held back `earlier`.
    pub(super) fn ending(ending: Ending, earlier: Vec<HeldInbound>, dataplane: &Dataplane, stored_at: u64) -> Self {
        let mut before = hold_all(&mut dataplane.clone());
        let forgotten = earlier.into_iter().filter(|inbound| before.iter().all(|known| known.port != inbound.port));
        before.extend(forgotten.collect::<Vec<_>>());
        Self { cause: Cause::Ending(ending), before, stored_at }
    }

    /// For a process that registers while it ends: it has connected again.
    pub(super) fn still_ending(ending: Ending, provided: &mut Dataplane) -> Self {
        Self { cause: Cause::Ending(ending), before: hold_all(provided), stored_at: NOT_STORED }
    }

    /// The hold that another control plane, or this one before its restart, has stored. `None` when no inbound waits.
    pub(super) fn stored(
        status: &DataplaneStatus,
        ending: Option<Ending>,
        stream: u64,
        stored_at: u64,
    ) -> Option<Self> {
        let cause = match ending {
            Some(ending) => Cause::Ending(ending),
            None if status.held.is_empty() => return None,
            None => Cause::Arriving { stream: Some(stream) },
        };
        Some(Self { cause, before: status.held.clone(), stored_at })
    }

    /// Makes inbounds NotReady that the proxy registers as ready and that are not ready in the stored Dataplane. With
    /// `probing`, inbounds with a `serviceProbe` keep their stored state until health checks report. `None` when no inbound
    /// has to wait.
    pub(super) fn arriving(provided: &mut Dataplane, stored: Option<&Dataplane>, probing: bool) -> Option<Self> {
        let serves = |inbound: &Inbound| {
            let known = stored.into_iter().flat_map(Dataplane::inbounds).find(|known| known.port == inbound.port);
            known.is_some_and(Inbound::is_ready)
        };
        let mut before = None;
        for inbound in inbounds(provided) {
            let serves = serves(inbound);
            if probing && is_probed(inbound) {
                if inbound.is_ready() != serves {
                    inbound.set_ready(serves);
                }
                if !serves {
                    before.get_or_insert_with(Vec::new);
                }
            } else if inbound.is_ready() && !serves {
                before.get_or_insert_with(Vec::new).push(HeldInbound::of(inbound));
                inbound.set_ready(false);
            }
        }
        before.map(|before| Self { cause: Cause::Arriving { stream: None }, before, stored_at: NOT_STORED })
    }
}

/// Makes every inbound NotReady, and returns those that were ready, as they were.
fn hold_all(dataplane: &mut Dataplane) -> Vec<HeldInbound> {
    let ready = inbounds(dataplane).filter(|inbound| inbound.is_ready());
    let held = ready.map(|inbound| {
        let before = HeldInbound::of(inbound);
        inbound.set_ready(false);
        before
    });
    held.collect()
}

/// Gives inbounds the readiness that they had. Those that are probed follow their probes instead.
fn restore(dataplane: &mut Dataplane, before: &[HeldInbound], probing: bool) -> bool {
    let mut changed = false;
    for inbound in inbounds(dataplane).filter(|inbound| !(probing && is_probed(inbound))) {
        if let Some(before) = before.iter().find(|before| before.port == inbound.port) {
            changed |= before.restore(inbound);
        }
    }
    changed
}

fn inbounds(dataplane: &mut Dataplane) -> impl Iterator<Item = &mut Inbound> {
    dataplane.networking.iter_mut().flat_map(|networking| &mut networking.inbound)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn dataplane(inbounds: &[(u32, &str)]) -> Dataplane {
        let inbound = |(port, state): &(u32, &str)| json!({ "port": port, "state": state });
        let inbounds: Vec<_> = inbounds.iter().map(inbound).collect();
        serde_json::from_value(json!({ "networking": { "address": "10.0.0.1", "inbound": inbounds } })).unwrap()
    }

    fn states(dataplane: &Dataplane) -> Vec<(u32, bool)> {
        dataplane.inbounds().iter().map(|inbound| (inbound.port, inbound.is_ready())).collect()
    }

    #[track_caller]
    fn check(provided: &[(u32, &str)], stored: Option<&[(u32, &str)]>, expected: &[(u32, bool)]) {
        let mut new = dataplane(provided);
        let hold = Hold::arriving(&mut new, stored.map(dataplane).as_ref(), true);
        assert_eq!(states(&new), expected);
        for held in hold.into_iter().flat_map(|hold| hold.before) {
            let mut inbound = Inbound { port: held.port, ..Inbound::default() };
            held.restore(&mut inbound);
            assert!(inbound.is_ready(), "{held:?}");
        }
    }

    #[test]
    fn new_proxy_is_not_ready() {
        check(&[(1, "Ready"), (2, "NotReady")], None, &[(1, false), (2, false)]);
    }

    #[test]
    fn only_inbounds_that_were_ready_stay_ready() {
        let stored = [(1, "Ready"), (2, "NotReady")];
        check(&[(1, "Ready"), (2, "Ready"), (3, "Ready")], Some(&stored), &[(1, true), (2, false), (3, false)]);
        check(&[(1, "NotReady")], Some(&stored), &[(1, false)]);
    }

    /// One that is probed, in this state.
    fn probed(state: &str) -> Dataplane {
        let inbound = json!({ "port": 1, "state": state, "serviceProbe": {} });
        serde_json::from_value(json!({ "networking": { "address": "10.0.0.1", "inbound": [inbound] } })).unwrap()
    }

    #[test]
    fn probed_inbounds_keep_their_stored_state() {
        for written in ["Ready", "NotReady"] {
            for (stored, ready) in [(None, false), (Some("NotReady"), false), (Some("Ready"), true)] {
                let mut new = probed(written);
                let hold = Hold::arriving(&mut new, stored.map(probed).as_ref(), true);
                assert_eq!(new.inbounds()[0].is_ready(), ready, "{written} {stored:?}");
                let before = hold.map(|hold| hold.before);
                assert_eq!(before, (!ready).then(Vec::new), "it arrives, and probes say the rest");
            }
        }
    }

    #[test]
    fn service_probes_have_no_effect_without_health_checks() {
        let mut new = probed("Ready");
        assert_eq!(Hold::arriving(&mut new, None, false).unwrap().before.len(), 1);
        assert!(!new.inbounds()[0].is_ready());
    }

    #[test]
    fn second_drain_keeps_the_states_of_the_first() {
        let mut stored = dataplane(&[(1, "Ready"), (2, "NotReady")]);
        let first = Hold::ending(Ending::Draining, Vec::new(), &stored, 1);
        let mut causes = Causes { hold: Some(first.clone()), ..Causes::default() };
        assert!(causes.apply(&mut stored, true));
        assert_eq!(states(&stored), [(1, false), (2, false)]);
        // Somebody makes the other one ready meanwhile.
        inbounds(&mut stored).last().unwrap().set_ready(true);
        causes.hold = Some(Hold::ending(Ending::Draining, first.before, &stored, 2));
        assert!(causes.apply(&mut stored, true) && !causes.apply(&mut stored, true));
        causes.hold.as_mut().unwrap().cause = Cause::Arrived;
        assert!(causes.apply(&mut stored, true) && !causes.apply(&mut stored, true));
        assert_eq!(states(&stored), [(1, true), (2, true)]);
    }

    #[test]
    fn envoy_is_not_live_after_it_was_or_in_two_reports() {
        let observed = |reports: &[Option<bool>]| {
            let mut probes = Probes::new(1);
            for is_live in reports {
                probes.observe(*is_live);
            }
            (probes.is_live(), probes.is_not_live())
        };
        assert_eq!(observed(&[]), (false, false));
        assert_eq!(observed(&[Some(false)]), (false, false), "it may still be starting");
        assert_eq!(observed(&[Some(false), None, Some(false)]), (false, true));
        assert_eq!(observed(&[Some(true), None]), (true, false), "no answer is no news");
        assert_eq!(observed(&[Some(true), Some(false)]), (false, true));
        assert_eq!(observed(&[Some(true), Some(false), Some(true)]), (true, false));
    }
}
