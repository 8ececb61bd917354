//! Everything from the beginning: which policies every proxy has, and what they say together.

use std::{
    collections::HashMap,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use kodiak_kinds::kinds;
use kodiak_rules::{Book, Matched, Resources, Shadow, inbound, subset};

use super::mesh::{KINDS, Size};

pub(super) struct Rebuilt {
    pub(super) took: Duration,
    pub(super) looked_at: usize,
    /// Policies in force, once for each proxy.
    pub(super) matched: usize,
    pub(super) lists: usize,
    pub(super) rules: usize,
    /// Kept as a control plane keeps them, so that equal answers are known again.
    _known: Vec<Rules>,
}

/// The rules that were built, by the list of policies that they are from.
#[derive(Default)]
pub(super) struct Rules {
    /// By where the list is: that is enough to know it again while it is kept.
    by_list: HashMap<(&'static str, usize), Arc<Matched>>,
    resources: Resources,
    pub(super) built: usize,
}

impl Rules {
    /// Builds the rules of a list, unless that was done.
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

/// A book of all of it, and how long it took to write it.
pub(super) fn file(size: Size) -> anyhow::Result<(Book, Duration)> {
    let policies = (0..size.policies).map(|n| size.policy(n, 0)).collect::<anyhow::Result<Vec<_>>>()?;
    let proxies = (0..size.proxies).map(|n| size.proxy(n)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut book = Book::default();
    let start = Instant::now();
    for (key, policy) in policies {
        book.set_policy(&key, Some(policy));
    }
    for proxy in proxies {
        book.set_proxy(&proxy.name.clone(), Some(proxy));
    }
    Ok((book, start.elapsed()))
}

/// Instances of a service go to one thread: they mostly have the same lists.
pub(super) fn all(book: &Book, size: Size, threads: usize) -> Rebuilt {
    let before = book.looked_at();
    let start = Instant::now();
    let done: Vec<(Rules, usize)> = thread::scope(|scope| {
        let spawn = |thread| scope.spawn(move || part(book, size, |n| n % size.services % threads == thread));
        let running: Vec<_> = (0..threads).map(spawn).collect();
        running.into_iter().map(|thread| thread.join().expect("building rules does not panic")).collect()
    });
    let took = start.elapsed();
    let matched = done.iter().map(|(_, matched)| matched).sum();
    let known: Vec<Rules> = done.into_iter().map(|(rules, _)| rules).collect();
    Rebuilt {
        took,
        looked_at: usize::try_from(book.looked_at() - before).unwrap_or(usize::MAX),
        matched,
        lists: known.iter().map(|rules| rules.by_list.len()).sum(),
        rules: known.iter().map(|rules| rules.built).sum(),
        _known: known,
    }
}

fn part(book: &Book, size: Size, is_mine: impl Fn(usize) -> bool) -> (Rules, usize) {
    let (mut rules, mut matched) = (Rules::default(), 0);
    for n in (0..size.proxies).filter(|n| is_mine(*n)) {
        let name = Size::key(n).name;
        for kind in KINDS {
            let found = book.matched(kind, &name, Shadow::Ignored);
            matched += found.proxy.len();
            rules.build(kind, found);
        }
    }
    (rules, matched)
}
