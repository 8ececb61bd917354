//! Inputs that crashed a target: saved in the repository's folder, with instructions.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::workspace::Workspace;

const ARTIFACTS: &str = "fuzz/artifacts";

/// Moves libFuzzer's findings to `fuzz/artifacts/<target>/` and returns the paths, relative to the root.
pub(super) fn keep(workspace: &Workspace, target: &str, found: &Path) -> Result<Vec<String>> {
    let mut kept = Vec::new();
    let folder = format!("{ARTIFACTS}/{target}");
    for entry in fs::read_dir(found).with_context(|| format!("cannot read {}", found.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // libFuzzer also saves slow inputs, which are not failures.
        if name.starts_with("slow-unit-") {
            fs::remove_file(&path)?;
            continue;
        }
        let to = format!("{folder}/{name}");
        fs::create_dir_all(workspace.root.join(&folder)).with_context(|| format!("cannot create {folder}"))?;
        // Not a rename: the cache may be on another disk.
        fs::copy(&path, workspace.root.join(&to)).with_context(|| format!("cannot write {to}"))?;
        fs::remove_file(&path)?;
        kept.push(to);
    }
    kept.sort();
    Ok(kept)
}

/// How to reproduce the crash, and how to add it to the seeds.
pub(super) fn advice(target: &str, kept: &[String]) -> String {
    let first = kept.first().map_or("<file>", String::as_str);
    let list = kept.join("\n  ");
    format!(
        "\
fuzz target {target} found something:
  {list}
To mend it:
  1. Look at the input:
       xxd {first} | head
  2. Write a test beside the code that failed, which says what should happen with this input. Shorten it by hand to what
     matters.
  3. Keep the input, so that every later run starts with it:
       mkdir -p fuzz/seeds/{target} && mv {first} fuzz/seeds/{target}/
  4. Mend the code, and run `cargo xtask fuzz {target} --seconds 10`."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashes_are_kept_and_slow_units_are_not() {
        let root = tempfile::tempdir().unwrap();
        let found = root.path().join("cache");
        fs::create_dir(&found).unwrap();
        fs::write(found.join("slow-unit-1"), "s").unwrap();
        fs::write(found.join("crash-2"), "c").unwrap();
        fs::write(found.join("timeout-3"), "t").unwrap();
        let workspace = Workspace { root: root.path().to_owned() };

        let kept = keep(&workspace, "kri", &found).unwrap();

        assert_eq!(kept, ["fuzz/artifacts/kri/crash-2", "fuzz/artifacts/kri/timeout-3"]);
        assert_eq!(fs::read_to_string(root.path().join(&kept[0])).unwrap(), "c");
        assert_eq!(fs::read_dir(&found).unwrap().count(), 0);
        assert!(advice("kri", &kept).contains("mv fuzz/artifacts/kri/crash-2 fuzz/seeds/kri/"));
    }
}
