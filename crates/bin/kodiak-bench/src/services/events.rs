//! One instance comes, changes its health and goes: what is done for each of it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use kodiak_rules::Proxy;

use super::{
    mesh::{Health, Size},
    work::Work,
    world::World,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Comes,
    NotReady,
    Ready,
    Goes,
}

/// The most that an event cost in any sample, and times.
#[derive(Debug)]
pub(super) struct Cost {
    pub(super) work: Work,
    pub(super) median: Duration,
    pub(super) longest: Duration,
}

impl Event {
    /// In the order in which they happen.
    pub(super) const ALL: [Self; 4] = [Self::Comes, Self::NotReady, Self::Ready, Self::Goes];

    /// In JSON.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Comes => "comes",
            Self::NotReady => "not_ready",
            Self::Ready => "ready",
            Self::Goes => "goes",
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Comes => "comes",
            Self::NotReady => "is not ready",
            Self::Ready => "is ready again",
            Self::Goes => "goes",
        }
    }

    fn happen(self, world: &mut World, ready: &Arc<Proxy>, not_ready: &Arc<Proxy>) -> anyhow::Result<()> {
        match self {
            Self::Comes => {
                world.write(std::slice::from_ref(ready))?;
                world.connect(std::slice::from_ref(ready))
            }
            Self::NotReady => world.write(std::slice::from_ref(not_ready)),
            Self::Ready => world.write(std::slice::from_ref(ready)),
            Self::Goes => world.remove(ready),
        }
    }
}

/// What each event costs; the mesh is as before in the end.
pub(super) fn measure(world: &mut World, size: Size, samples: usize) -> anyhow::Result<Vec<(Event, Cost)>> {
    let mut work = [Work::default(); Event::ALL.len()];
    let mut times: [Vec<Duration>; Event::ALL.len()] = Default::default();
    for n in 0..samples {
        let (ready, not_ready) = (size.guest(n, Health::Ready)?, size.guest(n, Health::NotReady)?);
        for (event, (most, times)) in Event::ALL.into_iter().zip(work.iter_mut().zip(&mut times)) {
            let before = world.work();
            let start = Instant::now();
            event.happen(world, &ready, &not_ready)?;
            times.push(start.elapsed());
            *most = most.max(world.work() - before);
        }
    }
    let costs = work.into_iter().zip(times).map(|(work, times)| Cost::new(work, times));
    Ok(Event::ALL.into_iter().zip(costs).collect())
}

impl Cost {
    fn new(work: Work, mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        Self { work, median, longest: times.last().copied().unwrap_or_default() }
    }
}
