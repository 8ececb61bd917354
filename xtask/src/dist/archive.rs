//! The files of a release, packed. The same files give the same archive.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::PROGRAM;
use super::licences::Licences;
use crate::process;

pub(super) struct Contents {
    pub(super) program: Vec<u8>,
    /// File names and scripts.
    pub(super) completions: Vec<(&'static str, String)>,
    pub(super) readme: String,
    pub(super) licence: String,
    pub(super) licences: Licences,
}

/// Packs everything below one folder `name` into `<name>.tar.gz` in `folder`.
pub(super) fn pack(folder: &Path, name: &str, contents: &Contents) -> Result<PathBuf> {
    let top = folder.join(name);
    if top.is_dir() {
        fs::remove_dir_all(&top).with_context(|| format!("cannot remove {}", top.display()))?;
    }
    for (path, bytes) in files(contents) {
        let path = top.join(path);
        let parent = path.parent().unwrap_or(&top);
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let program = top.join(PROGRAM);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} a program", program.display()))?;
    let archive = folder.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    // Neither the time of the build nor its user is in the archive.
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "--mode=u=rwX,go=rX"]);
    tar.args(["--use-compress-program=gzip -9n", "--create", "--file"]).arg(&archive).arg("--directory").arg(folder);
    process::run(tar.arg(name))?;
    fs::remove_dir_all(&top).with_context(|| format!("cannot remove {}", top.display()))?;
    Ok(archive)
}

/// Paths below the top folder, and bytes.
fn files(contents: &Contents) -> Vec<(String, &[u8])> {
    let Contents { program, completions, readme, licence, licences } = contents;
    let mut files = vec![
        (PROGRAM.to_owned(), program.as_slice()),
        ("README.md".to_owned(), readme.as_bytes()),
        ("LICENSE".to_owned(), licence.as_bytes()),
        ("licences/README.md".to_owned(), licences.list.as_bytes()),
    ];
    files.extend(completions.iter().map(|(name, script)| (format!("completions/{name}"), script.as_bytes())));
    files.extend(licences.texts.iter().map(|(path, bytes)| (format!("licences/{path}"), bytes.as_slice())));
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_has_all_files_and_is_reproducible() {
        let scratch = tempfile::tempdir().unwrap();
        let licences = Licences {
            list: "# Licences\n".to_owned(),
            texts: vec![("serde-1.0.0/LICENSE-MIT".to_owned(), b"MIT".to_vec())],
        };
        let contents = Contents {
            program: b"#!/bin/sh\necho runs\n".to_vec(),
            completions: vec![("kodiak.bash", "complete".to_owned()), ("_kodiak", "#compdef".to_owned())],
            readme: "# Kodiak\n".to_owned(),
            licence: "Apache".to_owned(),
            licences,
        };
        let archive = pack(scratch.path(), "kodiak-0.1.0-x86_64", &contents).unwrap();
        let listed = process::output(Command::new("tar").arg("-tzf").arg(&archive)).unwrap();
        let listed: Vec<&str> = listed.lines().filter(|line| !line.ends_with('/')).collect();
        assert_eq!(
            listed,
            [
                "kodiak-0.1.0-x86_64/LICENSE",
                "kodiak-0.1.0-x86_64/README.md",
                "kodiak-0.1.0-x86_64/completions/_kodiak",
                "kodiak-0.1.0-x86_64/completions/kodiak.bash",
                "kodiak-0.1.0-x86_64/kodiak",
                "kodiak-0.1.0-x86_64/licences/README.md",
                "kodiak-0.1.0-x86_64/licences/serde-1.0.0/LICENSE-MIT",
            ]
        );
        let first = fs::read(&archive).unwrap();
        process::run(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(scratch.path())).unwrap();
        let program = scratch.path().join("kodiak-0.1.0-x86_64/kodiak");
        assert_eq!(process::output(&mut Command::new(program)).unwrap(), "runs\n");
        assert_eq!(fs::read(pack(scratch.path(), "kodiak-0.1.0-x86_64", &contents).unwrap()).unwrap(), first);
    }
}
