//! Work that only the leader does, and that it writes in its term.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Files that ask for leadership to write. Each write goes through the `Leader` that they get, so the store rejects it
/// once another control plane leads: a new one must do the same, and be listed here.
const WRITE: &[&str] = &[
    "bin/kodiak-cp/src/defaults.rs",
    "edge/kodiak-proxies/src/leader.rs",
    "edge/kodiak-proxies/src/traffic/parts.rs",
    "edge/kodiak-reconcilers/src/identities/mod.rs",
    "edge/kodiak-reconcilers/src/mtls.rs",
    "edge/kodiak-reconcilers/src/services/mod.rs",
    "edge/kodiak-reconcilers/src/services/write.rs",
];
/// Files that read whether this control plane leads, and write nothing.
const READ: &[&str] = &["bin/kodiak-cp/src/diagnostics.rs"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "tests" && name != "kodiak-store" {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_leader_task_writes_in_its_term() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    sources(&crates.join("edge"), &mut files);
    sources(&crates.join("bin"), &mut files);
    let (mut leaders, mut readers) = (BTreeSet::new(), BTreeSet::new());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(&crates).unwrap().to_string_lossy().into_owned();
        if text.contains(".leader()") {
            leaders.insert(name.clone());
        }
        // Waiting for a change of leadership decides nothing.
        if text.contains("leadership().borrow()") || text.contains("leadership.borrow()") {
            readers.insert(name);
        }
    }
    assert_eq!(leaders.iter().map(String::as_str).collect::<Vec<_>>(), WRITE);
    assert_eq!(readers.iter().map(String::as_str).collect::<Vec<_>>(), READ);
}
