//! Child process of a test, with its output. Killed with the test.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread,
};

/// Enough to see what went wrong.
const SHOWN_LINES: usize = 40;
/// The whole configuration is longer, and tells nothing here.
const LONGEST_LINE: usize = 1500;

pub(crate) struct Process {
    child: Child,
    printed: Arc<Mutex<Vec<String>>>,
    reader: Option<thread::JoinHandle<()>>,
}

impl Process {
    /// Its standard error is kept; Envoy's output goes elsewhere.
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let printed = Arc::new(Mutex::new(Vec::new()));
        let (shared, stderr) = (Arc::clone(&printed), child.stderr.take().unwrap());
        let reader = thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok).filter(|line| line.len() < LONGEST_LINE) {
                shared.lock().unwrap().push(line);
            }
        });
        Self { child, printed, reader: Some(reader) }
    }

    /// The last of what it printed.
    pub(crate) fn printed(&self) -> String {
        let printed = self.printed.lock().unwrap();
        printed[printed.len().saturating_sub(SHOWN_LINES)..].join("\n")
    }

    /// The first line with this text.
    pub(crate) fn line(&self, text: &str) -> Option<String> {
        self.printed.lock().unwrap().iter().find(|line| line.contains(text)).cloned()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// As `kill` does it: to this process alone.
    pub(crate) fn signal(&self, signal: &str) {
        self::signal(signal, &self.child.id().to_string());
    }

    /// The number of the process that this one has started.
    pub(crate) fn only_child(&self) -> String {
        let output = Command::new("pgrep").args(["--parent", &self.child.id().to_string()]).output().unwrap();
        let children = String::from_utf8(output.stdout).unwrap();
        assert_eq!(children.lines().count(), 1, "{children}");
        children.trim().to_owned()
    }

    /// With all that it printed.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        (status, self.printed.lock().unwrap().join("\n"))
    }
}

pub(crate) fn signal(signal: &str, process: &str) {
    let status = Command::new("kill").args([signal, process]).status().unwrap();
    assert!(status.success(), "kill {signal}");
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.reader.is_some() {
            let _ = self.child.kill();
            let _ = self.child.wait();
            if thread::panicking() {
                eprintln!("--- {:?} printed last:\n{}", self.child.id(), self.printed());
            }
        }
    }
}
