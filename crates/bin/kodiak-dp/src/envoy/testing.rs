//! Small programs that stand in for large ones.

use std::path::Path;
use std::process::Command;

/// Written by another process: one that we start from another thread in the meantime would inherit our open file, and a
/// file that is open for writing cannot be run.
pub(super) fn script(path: &Path, text: &str) {
    let write = r#"rm -f "$1" && printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod 755 "$1""#;
    let status = Command::new("sh").args(["-c", write, "write"]).arg(path).arg(text).status().unwrap();
    assert!(status.success());
}

/// What an Envoy of this version does when asked for it.
pub(super) fn prints_version(version: &str) -> String {
    format!("echo \"$0  version: 0123abcd/{version}/Clean/RELEASE/BoringSSL\"")
}
