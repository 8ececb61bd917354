//! File descriptors: every connection is one, and a process has only so many.
//!
//! A process without any left can neither accept a probe nor write its store. So the limits of connections are made to
//! fit into what the system allows, before the first connection comes.

use kodiak_listen::ConnectionLimits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For everything that is no connection of a client: the store, the database, calls to Envoys, files.
const RESERVED: usize = 512;
/// No port gets fewer connections.
const FEWEST: usize = 32;

/// Raises the limit of this process to what the system allows, and lowers the limits of connections to what fits.
pub(crate) fn fit(limits: &mut [&mut ConnectionLimits]) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let mut allowed = current;
    if current != maximum {
        match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
            Ok(()) => allowed = maximum,
            Err(error) => tracing::warn!(%error, ?current, ?maximum, "failed to raise the limit of open files"),
        }
    }
    let Some(allowed) = allowed.and_then(|files| usize::try_from(files).ok()) else { return };
    let wanted: usize = limits.iter().map(|limits| limits.connections).sum();
    if share(limits, allowed) {
        let needed = wanted + RESERVED;
        tracing::warn!(
            allowed,
            needed,
            "open files are limited: fewer connections are taken than configured; raise `ulimit -n`"
        );
    }
}

/// Whether any limit was lowered.
fn share(limits: &mut [&mut ConnectionLimits], files: usize) -> bool {
    let available = files.saturating_sub(RESERVED);
    let wanted: usize = limits.iter().map(|limits| limits.connections).sum();
    if wanted <= available {
        return false;
    }
    for limits in limits {
        limits.connections = (limits.connections.saturating_mul(available) / wanted).max(FEWEST);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(wanted: [usize; 2], files: usize) -> [usize; 2] {
        let mut limits = wanted.map(|connections| ConnectionLimits { connections, ..ConnectionLimits::api() });
        let [first, second] = &mut limits;
        share(&mut [first, second], files);
        limits.map(|limits| limits.connections)
    }

    #[test]
    fn connections_fit_into_the_files_that_a_process_may_have() {
        assert_eq!(shared([4000, 20_000], 100_000), [4000, 20_000]);
        assert_eq!(shared([4000, 20_000], 12_512), [2000, 10_000]);
        assert_eq!(shared([4000, 20_000], 1024), [85, 426]);
        assert_eq!(shared([4000, 20_000], 100), [FEWEST, FEWEST]);
    }
}
