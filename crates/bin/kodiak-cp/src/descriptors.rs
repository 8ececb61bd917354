//! Limit of file descriptors. Every connection uses one.
//!
//! A process without free descriptors can neither accept a probe nor write its store. So the connection limits are
//! reduced to the system's limit before the first port is opened.

use kodiak_listen::ConnectionLimits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Reserved for the store, the database, requests to Envoys, and files.
const RESERVED: usize = 512;
/// Minimum of connections per port.
const FEWEST: usize = 32;

/// Raises the soft limit of this process to the hard limit, and reduces the connection limits to fit.
pub(crate) fn fit(limits: &mut [&mut ConnectionLimits]) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let mut allowed = current;
    if current != maximum {
        match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
            Ok(()) => allowed = maximum,
            Err(error) => tracing::warn!(%error, ?current, ?maximum, "failed to raise the open files limit"),
        }
    }
    let Some(allowed) = allowed.and_then(|files| usize::try_from(files).ok()) else { return };
    let wanted: usize = limits.iter().map(|limits| limits.connections).sum();
    if share(limits, allowed) {
        let needed = wanted + RESERVED;
        tracing::warn!(
            allowed,
            needed,
            "open files limit is too low, connection limits are reduced: raise `ulimit -n`"
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
    fn connection_limits_fit_into_the_open_files_limit() {
        assert_eq!(shared([4000, 20_000], 100_000), [4000, 20_000]);
        assert_eq!(shared([4000, 20_000], 12_512), [2000, 10_000]);
        assert_eq!(shared([4000, 20_000], 1024), [85, 426]);
        assert_eq!(shared([4000, 20_000], 100), [FEWEST, FEWEST]);
    }
}
