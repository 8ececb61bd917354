//! A process that tests suspend: this program again, with the place of its store in an environment variable.

use std::{
    env,
    io::{BufRead as _, BufReader, Lines, Write as _, stdin},
    process::{Child, ChildStdout, Command, Stdio},
};

const PLACE: &str = "KODIAK_TEST_VICTIM_STORE";
/// Marks its messages in the output of the test.
const MARK: &str = "victim: ";

/// In the process itself: the place of its store.
pub(crate) fn place() -> Option<String> {
    env::var(PLACE).ok()
}

/// In the process itself: sends a message.
pub(crate) fn say(message: &str) {
    println!("{MARK}{message}");
}

/// In the process itself: waits for [`Victim::go`].
pub(crate) async fn wait() {
    tokio::task::spawn_blocking(|| stdin().lock().lines().next()).await.unwrap();
}

pub(crate) struct Victim {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Victim {
    pub(crate) fn start(test: &str, place: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(PLACE, place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line of its output.
    pub(crate) fn says(&mut self) -> String {
        let said = self
            .lines
            .by_ref()
            .map(Result::unwrap)
            .find_map(|line| line.split_once(MARK).map(|(_, said)| said.to_owned()));
        said.expect("it says something")
    }

    pub(crate) fn go(&self) {
        writeln!(self.child.stdin.as_ref().unwrap(), "go").unwrap();
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
