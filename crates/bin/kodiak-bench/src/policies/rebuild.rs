//! Full rebuild: matched policies and merged rules of every proxy.

use std::{
    collections::HashMap,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use kodiak_kinds::kinds;
use kodiak_rules::{Matched, PolicyIndex, Resources, Shadow, inbound, subset};

use super::mesh::{KINDS, Size};

pub(super) struct Rebuilt {
    pub(super) took: Duration,
    pub(super) looked_at: usize,
    /// Matched policies, counted once per proxy.
    pub(super) matched: usize,
    pub(super) lists: usize,
    pub(super) rules: usize,
    /// Kept as in a control plane, so that equal lists are recognised.
    _known: Vec<Rules>,
}

/// Built rules by their list of policies.
#[derive(Default)]
pub(super) struct Rules {
    /// By address of the list, which identifies it while it is alive.
    by_list: HashMap<(&'static str, usize), Arc<Matched>>,
    resources: Resources,
    pub(super) built: usize,
}

impl Rules {
    /// Builds the rules of a list, unless they are built.
    pub(super) fn build(&mut self, kind: &'static str, matched: Arc<Matched>) {
        let at = (kind, Arc::as_ptr(&matched).addr());
        if self.by_list.contains_key(&at) {
            return;
        }
        let facts = kinds().by_name(kind).and_then(|kind| kind.policy).expect("these kinds are policies");
        if facts.to {
            self.built += subset::to(&matched.proxy, &self.resources).map_or(0, |rules| rules.len());
        }
        for policies in matched.inbounds.values() {
            if facts.from {
                self.built += subset::from(policies).map_or(0, |rules| rules.len());
            }
            if facts.rules {
                self.built += inbound::rules(policies).len();
            }
        }
        self.by_list.insert(at, matched);
    }
}

/// Policy index of the mesh, and the time to build it.
pub(super) fn file(size: Size) -> anyhow::Result<(PolicyIndex, Duration)> {
    let policies = (0..size.policies).map(|n| size.policy(n, 0)).collect::<anyhow::Result<Vec<_>>>()?;
    let proxies = (0..size.proxies).map(|n| size.proxy(n)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut policy_index = PolicyIndex::default();
    let start = Instant::now();
    for (key, policy) in policies {
        policy_index.set_policy(&key, Some(policy));
    }
    for proxy in proxies {
        policy_index.set_proxy(&proxy.name.clone(), Some(proxy));
    }
    Ok((policy_index, start.elapsed()))
}

/// Instances of a service go to one thread, since they mostly have the same lists.
pub(super) fn all(policy_index: &PolicyIndex, size: Size, threads: usize) -> Rebuilt {
    let before = policy_index.looked_at();
    let start = Instant::now();
    let done: Vec<(Rules, usize)> = thread::scope(|scope| {
        let spawn = |thread| scope.spawn(move || part(policy_index, size, |n| n % size.services % threads == thread));
        let running: Vec<_> = (0..threads).map(spawn).collect();
        running.into_iter().map(|thread| thread.join().expect("building rules does not panic")).collect()
    });
    let took = start.elapsed();
    let matched = done.iter().map(|(_, matched)| matched).sum();
    let known: Vec<Rules> = done.into_iter().map(|(rules, _)| rules).collect();
    Rebuilt {
        took,
        looked_at: usize::try_from(policy_index.looked_at() - before).unwrap_or(usize::MAX),
        matched,
        lists: known.iter().map(|rules| rules.by_list.len()).sum(),
        rules: known.iter().map(|rules| rules.built).sum(),
        _known: known,
    }
}

fn part(policy_index: &PolicyIndex, size: Size, is_mine: impl Fn(usize) -> bool) -> (Rules, usize) {
    let (mut rules, mut matched) = (Rules::default(), 0);
    for n in (0..size.proxies).filter(|n| is_mine(*n)) {
        let name = Size::key(n).name;
        for kind in KINDS {
            let found = policy_index.matched(kind, &name, Shadow::Ignored);
            matched += found.proxy.len();
            rules.build(kind, found);
        }
    }
    (rules, matched)
}
