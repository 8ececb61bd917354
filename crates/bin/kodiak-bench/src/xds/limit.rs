//! Every proxy is a connection, and every connection is an open file.

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a process has open besides.
const OTHERS: u64 = 100;

/// Lets this process, and those that it starts, have so many connections.
pub(super) fn raise(connections: usize) -> anyhow::Result<()> {
    let needed = connections as u64 + OTHERS;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let allowed = maximum.is_none_or(|maximum| maximum >= needed);
    let advice = format!("{connections} proxies need {needed} open files, more than are allowed: see `ulimit -n`");
    anyhow::ensure!(allowed, "{advice}");
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum }).context(advice)
}
