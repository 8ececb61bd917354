//! A command that downloads something, with its progress.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How often the download is looked at, and how often it is reported.
const LOOK: Duration = Duration::from_millis(200);
const REPORT: Duration = Duration::from_secs(2);

/// Runs a command that downloads into temporary files, and reports how much it has every two seconds.
///
/// `folder` is empty, and the command's own: its temporary files and its output go there.
pub(super) fn run(command: &mut Command, folder: &Path, say: &mut dyn FnMut(&str)) -> io::Result<Output> {
    let temporary = folder.join("tmp");
    fs::create_dir_all(&temporary)?;
    // Files and not pipes: nobody reads while the command runs.
    let (stdout, stderr) = (folder.join("stdout"), folder.join("stderr"));
    command.stdin(Stdio::null()).stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
    let mut child = command.env("TMPDIR", &temporary).spawn()?;
    let (mut reported, mut last) = (0, Instant::now());
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        thread::sleep(LOOK);
        let megabytes = size(&temporary) / 1_000_000;
        if megabytes > reported && (reported == 0 || last.elapsed() >= REPORT) {
            say(&format!("Downloaded {megabytes} MB."));
            (reported, last) = (megabytes, Instant::now());
        }
    };
    Ok(Output { status, stdout: fs::read(stdout)?, stderr: fs::read(stderr)? })
}

/// Bytes of all files in a folder. Files that are removed meanwhile do not count.
fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downloaded_bytes_are_reported_while_the_command_runs() {
        let scratch = tempfile::tempdir().unwrap();
        let go = scratch.path().join("go");
        // It ends when the report has been seen.
        let script = "mkdir \"$TMPDIR/deep\"; head -c 3500000 /dev/zero >\"$TMPDIR/deep/wheel\"\n\
                      until [ -e \"$0\" ]; do sleep 0.05; done; echo done; echo fine >&2";
        let mut said = Vec::new();
        let mut command = Command::new("sh");
        let output = run(command.args(["-c", script]).arg(&go), &scratch.path().join("own"), &mut |line| {
            said.push(line.to_owned());
            fs::write(&go, "").unwrap();
        });
        let output = output.unwrap();
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"done\n"[..], &b"fine\n"[..]));
        assert!(said.iter().any(|line| line.starts_with("Downloaded ")), "{said:?}");
    }
}
