//! Programs of Prometheus, which tests start.

use std::{
    env,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use crate::skip::{Need, skip};

/// The server. `None`, with a message, where it is not installed.
pub fn prometheus() -> Option<PathBuf> {
    program("prometheus")
}

/// Its tool for checks. `None`, with a message, where it is not installed.
pub fn promtool() -> Option<PathBuf> {
    program("promtool")
}

fn program(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders).map(|folder| folder.join(name)).find(|file| file.is_file());
    if found.is_none() {
        skip(Need::Program, &format!("{name} is not installed"));
    }
    found
}

/// Whether Prometheus can read this exposition. Advice about names is not an error: names of Envoy are its own.
///
/// # Errors
///
/// The output of promtool.
pub fn check_metrics(promtool: &PathBuf, exposition: &str) -> Result<(), String> {
    use std::io::Write as _;
    const ADVICE: i32 = 3;
    let mut command = Command::new(promtool);
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let mut input = child.stdin.take().expect("it is piped");
    let text = exposition.to_owned();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let Output { status, stdout, stderr } = child.wait_with_output().map_err(|error| error.to_string())?;
    writer.join().expect("it does not panic").map_err(|error| error.to_string())?;
    match status.code() {
        Some(0 | ADVICE) => Ok(()),
        _ => Err(format!("{status}: {}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr))),
    }
}
