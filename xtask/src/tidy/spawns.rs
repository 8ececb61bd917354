//! Spawned tasks and threads. Each has a supervisor that notices its panic: a control plane that lost a task must not
//! continue half alive.

use super::Repository;
use super::finding::Findings;
use super::tree::File;

/// Files, or folders with a trailing `/`, that spawn tasks, and the supervisor of each.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/bin/kodiak-cp/src/tasks.rs", "supervised: a task that ends early ends the process, with its name"),
    ("crates/bin/kodiak-cp/src/start.rs", "through `Tasks`"),
    ("crates/bin/kodiak-cp/src/writer.rs", "its thread ends the writer's task; token checks are joined"),
    ("crates/bin/kodiak-cp/src/apart.rs", "awaited by its task, which ends when a server or the thread ends"),
    ("crates/edge/kodiak-store/src/store.rs", "through `Supervisor`, which closes the store"),
    ("crates/edge/kodiak-store/src/engine/file.rs", "awaited: the write fails"),
    ("crates/edge/kodiak-store/src/engine/postgres/lease.rs", "joined, and the lease is released"),
    ("crates/edge/kodiak-catalog/src/initial/secrets.rs", "awaited: the write fails"),
    ("crates/edge/kodiak-listen/src/server.rs", "a connection: it ends"),
    ("crates/edge/kodiak-pool/src/threads.rs", "catches panics: the request fails, and the thread goes on"),
    ("crates/bin/kodiak-dp/src/metrics/scrape.rs", "scrapes of applications: they end in time, and with their request"),
    ("crates/bin/kodiak-dp/src/metrics/server.rs", "a connection: it ends"),
    ("crates/edge/kodiak-ads/src/server.rs", "a connection or stream: it ends, and the proxy reconnects"),
    ("crates/bin/kodiak-dp/src/run/mod.rs", "supervised: `kodiak dp` ends"),
    ("crates/bin/kodiak-dp/src/run/readiness.rs", "a connection: it ends"),
    ("crates/bin/kodiak-dp/src/run/process.rs", "waits for Envoy; waiters see that it ended"),
    ("crates/bin/kodiak-dp/src/dns/server.rs", "a query: it is not answered"),
    ("crates/bin/kodiak-cli/src/commands/dp/", "awaited: the command fails"),
    ("crates/bin/kodiak-demo/src/", "a demonstration"),
    ("crates/bin/kodiak-bench/src/", "a benchmark"),
];
/// Shipped code.
const GROUPS: &[&str] = &["crates/core/", "crates/edge/", "crates/bin/"];
/// Parts of it that only developers run.
const NOT_SHIPPED: &[&str] = &["/tests/", "/tests.rs", "/benches/", "/examples/", "/build.rs"];
const STARTS: &[&str] = &["spawn(", "spawn_blocking(", "spawn_local(", "thread::Builder"];

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    for file in repository.tree.with_extension("rs").filter(|file| is_shipped(file) && !is_allowed(file.path)) {
        // Unit tests are at the end of a file.
        let lines = file.lines().take_while(|(_, line)| !line.starts_with("#[cfg(test)]") || line.ends_with(';'));
        for (number, _) in lines.filter(|(_, line)| starts_a_task(line)) {
            let advice = "use an existing supervisor, or name one in `ALLOWED` of xtask/src/tidy/spawns.rs";
            findings.fault(file.path, number, format!("starts a task or a thread; {advice}"));
        }
    }
}

fn is_shipped(file: &File<'_>) -> bool {
    GROUPS.iter().any(|group| file.path.starts_with(group)) && !NOT_SHIPPED.iter().any(|part| file.path.contains(part))
}

fn is_allowed(path: &str) -> bool {
    ALLOWED.iter().any(|(allowed, _)| if allowed.ends_with('/') { path.starts_with(allowed) } else { path == *allowed })
}

/// `spawn()` without arguments starts a process, and function definitions are not calls.
fn starts_a_task(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let called = |start: &str| code.match_indices(start).any(|(at, _)| !code[at..].starts_with("spawn()"));
    !code.contains("fn spawn") && STARTS.iter().any(|start| called(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::findings;

    #[test]
    fn rejects_an_unsupervised_task() {
        let text = "//! New.\nfn run() {\n    tokio::spawn(work());\n}\n";
        let found = findings(check, &[("crates/edge/kodiak-new/src/lib.rs", text)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/edge/kodiak-new/src/lib.rs:3: starts a task or a thread"), "{found:?}");
    }

    #[test]
    fn allows_tests_processes_and_listed_files() {
        let spawn = "//! Old.\nset.spawn(work());\n";
        let unit =
            "//! Old.\nlet child = command.spawn()?;\n#[cfg(test)]\nmod tests { fn a() { tokio::spawn(b()); } }\n";
        let files = [
            ("crates/bin/kodiak-cp/src/tasks.rs", spawn),
            ("crates/bin/kodiak-bench/src/new.rs", spawn),
            ("crates/bin/kodiak-cp/tests/it/new.rs", spawn),
            ("xtask/src/new.rs", spawn),
            ("crates/bin/kodiak-dp/src/new.rs", unit),
        ];
        assert!(findings(check, &files).is_empty());
    }
}
