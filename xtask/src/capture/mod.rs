//! `cargo xtask capture`: runs the demo in a terminal and renders what it shows to an animated SVG for the README.

mod screen;
mod svg;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process;
use crate::workspace::Workspace;
use screen::Screen;
use svg::Frame;

/// Records `kodiak demo` into docs/images/demo.svg.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long the demo runs after it has started, in seconds.
    #[arg(long, default_value_t = 8)]
    seconds: u32,
    /// Record an optimised build, as users see it.
    #[arg(long)]
    release: bool,
}

const IMAGE: &str = "docs/images/demo.svg";
const COLUMNS: usize = 100;
const ROWS: usize = 40;
/// Waiting is shown for no longer than this.
const LONGEST_PAUSE: Duration = Duration::from_millis(1200);
/// Output that arrives within this time is one frame.
const FRAME: Duration = Duration::from_millis(80);

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if process::folder_on_path("script").is_none() {
        bail!("`script` gives the demo a terminal and is not installed: run `apt-get install bsdutils`");
    }
    let mut build = process::cargo(workspace);
    build.args(["build", "--package", "kodiak"]).args(args.release.then_some("--release"));
    process::run(&mut build)?;
    let profile = if args.release { "release" } else { "debug" };
    let folder = workspace.metadata("Cargo.toml")?.target_dir.join(profile);
    let frames = record(&folder, args.seconds)?;
    let image = svg::render("kodiak demo", &frames, COLUMNS);
    fs::write(workspace.root.join(IMAGE), &image).with_context(|| format!("cannot write {IMAGE}"))?;
    println!("{IMAGE}: {} frames, {} KiB", frames.len(), image.len() / 1024);
    Ok(())
}

/// Runs the demo of the program in `folder`, and returns what its terminal showed.
fn record(folder: &Path, seconds: u32) -> Result<Vec<Frame>> {
    let mut path = OsString::from(folder);
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    let demo = format!("stty cols {COLUMNS} rows {ROWS}; exec kodiak demo --for {seconds}s");
    let mut command = Command::new("script");
    command.args(["--quiet", "--flush", "--return", "--command", &demo, "/dev/null"]).env("PATH", path);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start `script`")?;
    let mut output = child.stdout.take().context("the output of `script` is piped")?;
    let mut screen = Screen::default();
    let mut frames: Vec<Frame> = Vec::new();
    let (mut buffer, mut before, mut at) = ([0; 4096], Instant::now(), Duration::ZERO);
    // Characters can be split over two reads.
    let mut pending = Vec::new();
    loop {
        let count = output.read(&mut buffer).context("cannot read the output of the demo")?;
        if count == 0 {
            break;
        }
        pending.extend_from_slice(&buffer[..count]);
        screen.write(&take_text(&mut pending));
        let paused = before.elapsed();
        before = Instant::now();
        let lines = anonymous(&screen.lines());
        match frames.last_mut() {
            Some(last) if paused < FRAME => last.lines = lines,
            _ => {
                at += paused.min(LONGEST_PAUSE);
                frames.push(Frame { at, lines });
            }
        }
    }
    let status = child.wait().context("cannot wait for the demo")?;
    if !status.success() {
        bail!("the demo failed ({status}): run `kodiak demo` to see why");
    }
    Ok(frames)
}

/// Everything up to the last complete character.
fn take_text(pending: &mut Vec<u8>) -> String {
    let complete = match str::from_utf8(pending) {
        Ok(text) => text.len(),
        Err(error) => error.valid_up_to(),
    };
    String::from_utf8_lossy(&pending.drain(..complete).collect::<Vec<_>>()).into_owned()
}

/// The lines with the home folder of this machine as `~`.
fn anonymous(lines: &[String]) -> Vec<String> {
    let home = env::var("HOME").unwrap_or_default();
    let shorten = |line: &String| if home.len() > 1 { line.replace(&home, "~") } else { line.clone() };
    lines.iter().map(shorten).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_over_two_reads_is_kept_for_the_second() {
        let mut pending = "a→".as_bytes()[..2].to_vec();
        assert_eq!(take_text(&mut pending), "a");
        pending.extend_from_slice(&"→".as_bytes()[1..]);
        assert_eq!(take_text(&mut pending), "→");
        assert!(pending.is_empty());
    }
}
