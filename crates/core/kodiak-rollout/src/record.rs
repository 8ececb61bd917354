//! The stored step of a mesh, with the steps before it that proxies may still be at.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Phase, Rollout};

/// More steps in a row are not taken without acknowledgements.
const MOST_BEHIND: usize = 16;

/// Step of a mesh as it is stored. A reader of the step alone reads it as a [`Rollout`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutRecord {
    #[serde(flatten)]
    pub step: Rollout,
    /// `None` for a step that an older version took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<Timestamp>,
    /// Steps before it that proxies may still be at, oldest first. All proxies acknowledged the first one. Empty for a
    /// new mesh, and for a step that an older version took.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub behind: Vec<Rollout>,
}

/// Step that leaves a rejected one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WayBack {
    pub phase: Phase,
    pub next: Rollout,
}

impl RolloutRecord {
    /// First step of a mesh.
    pub fn first(step: Rollout, now: Timestamp) -> Self {
        Self { step, taken: Some(now), behind: Vec::new() }
    }

    /// The record after the next step is taken. `acknowledged`: all proxies acknowledged the step before it.
    #[must_use]
    pub fn advanced(&self, next: Rollout, acknowledged: bool, now: Timestamp) -> Self {
        let before = self.step.clone();
        let behind = if acknowledged { vec![before] } else { self.behind.iter().cloned().chain([before]).collect() };
        let equal = behind.iter().filter(|step| step.is_same_step(&next));
        let repeat = equal.map(|step| step.repeat + 1).max().unwrap_or_default();
        Self { step: Rollout { repeat, ..next }, taken: Some(now), behind }
    }

    /// Steps that a proxy may be at that acknowledged this token last: the step of the token, and all after it. `None`
    /// if the step is unknown.
    pub fn possible_steps(&self, acknowledged: &str) -> Option<impl Iterator<Item = &Rollout>> {
        let position = self.steps().position(|step| step.token() == acknowledged)?;
        Some(self.steps().skip(position))
    }

    /// Steps that proxies may be at, oldest first.
    pub fn steps(&self) -> impl Iterator<Item = &Rollout> {
        self.behind.iter().chain([&self.step])
    }

    /// Step to take when proxies reject the current one, without waiting for its acknowledgement. `None` while the current
    /// step is the right one for the target, and when it is unknown where proxies are.
    ///
    /// It continues from the last step that all proxies acknowledged, or returns to that one: proxies at any of the steps
    /// behind are compatible with it.
    pub fn way_back(&self, target: &Rollout, loses: impl Fn(&Rollout) -> bool) -> Option<WayBack> {
        let Some(base) = self.behind.first() else { return self.way_back_of_older(target) };
        if self.behind.len() >= MOST_BEHIND {
            return None;
        }
        let (phase, next) = base.next(target, loses(base)).unwrap_or_else(|| (Phase::Remove, base.clone()));
        if next.is_same_step(&self.step) {
            return None;
        }
        if self.steps().all(|step| step.is_compatible(&next)) {
            return Some(WayBack { phase, next });
        }
        (!base.is_same_step(&self.step)).then(|| WayBack { phase: Phase::Remove, next: base.clone() })
    }

    /// An older version took the step, so the one before is unknown. Where only MeshTrusts differ, both use the same
    /// certificates, and the target trusts their CAs.
    fn way_back_of_older(&self, target: &Rollout) -> Option<WayBack> {
        let with_trust = Rollout { trust_domains: self.step.trust_domains.clone(), ..target.clone() };
        let is_way_back =
            self.taken.is_none() && with_trust.is_same_step(&self.step) && !target.is_same_step(&self.step);
        is_way_back.then(|| WayBack { phase: Phase::Remove, next: target.clone() })
    }
}
