//! Change of one policy: affected proxies, and repeated work.

use std::time::{Duration, Instant};

use kodiak_rules::{PolicyIndex, Shadow};

use super::{
    super::results::{as_f64, millis},
    mesh::{BenchTarget, Size},
    rebuild::Rules,
};

/// Changed policies by their targets.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scope {
    Mesh,
    Service,
    Subset,
    Labels,
}

/// Means over all changes, and times.
pub(super) struct Measured {
    pub(super) concerned: f64,
    pub(super) looked_at: f64,
    pub(super) rules: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
}

impl Scope {
    pub(super) const ALL: [Self; 4] = [Self::Mesh, Self::Service, Self::Subset, Self::Labels];

    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Mesh => "mesh",
            Self::Service => "service",
            Self::Subset => "subset",
            Self::Labels => "labels",
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mesh => "one policy for all",
            Self::Service => "one for a service",
            Self::Subset => "one for a subset by tags",
            Self::Labels => "one for Dataplanes by labels",
        }
    }

    /// At most this many policies, spread over the mesh.
    pub(super) fn picked(self, size: Size, count: usize) -> Vec<usize> {
        let target = match self {
            Self::Mesh => BenchTarget::Mesh,
            Self::Service => BenchTarget::Service,
            Self::Subset => BenchTarget::Subset,
            Self::Labels => BenchTarget::Labels,
        };
        let all: Vec<usize> = (0..size.policies).filter(|n| Size::target(*n) == target).collect();
        let step = (all.len() / count).max(1);
        all.into_iter().step_by(step).take(count).collect()
    }
}

pub(super) fn measure(
    policy_index: &mut PolicyIndex,
    size: Size,
    scope: Scope,
    count: usize,
) -> anyhow::Result<Measured> {
    let picked = scope.picked(size, count);
    let (mut concerned, mut built, mut times) = (0, 0, Vec::new());
    let before = policy_index.looked_at();
    for n in &picked {
        let (key, policy) = size.policy(*n, 1)?;
        let start = Instant::now();
        let mut rules = Rules::default();
        let proxies = policy_index.set_policy(&key, Some(policy));
        for proxy in &proxies {
            rules.build(key.0, policy_index.matched(key.0, proxy, Shadow::Ignored));
        }
        times.push(start.elapsed());
        concerned += proxies.len();
        built += rules.built;
    }
    let looked_at = usize::try_from(policy_index.looked_at() - before).unwrap_or(usize::MAX);
    let mean = |sum: usize| as_f64(sum) / as_f64(picked.len().max(1));
    let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
    Ok(Measured { concerned: mean(concerned), looked_at: mean(looked_at), rules: mean(built), p50, p99 })
}

/// In milliseconds. Zero without measurements.
pub(super) fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    let place = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(place).copied().map_or(0.0, millis)
}
