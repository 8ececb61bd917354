//! Where results go: a table that is redrawn, lines where that cannot be, or JSON.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use kodiak_terminal::printable;
use serde_json::{Value, json};

use super::view::{Results, Sent};

pub(super) struct Screen {
    json: bool,
    redraws: bool,
    /// Of the table that is there now.
    lines: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// From the start until everything worked.
    pub(super) startup: Duration,
    /// Since then.
    pub(super) steady: Duration,
}

impl Screen {
    pub(super) fn new(json: bool) -> Self {
        Self { json, redraws: !json && io::stdout().is_terminal(), lines: 0 }
    }

    /// It works; `introduction` is for people.
    pub(super) fn ready(&self, api: &str, startup: Duration, introduction: impl FnOnce()) -> io::Result<()> {
        if self.json {
            return write(&json!({"event": "ready", "api": api, "startup_seconds": seconds(startup)}));
        }
        introduction();
        Ok(())
    }

    /// How it stands.
    pub(super) fn show(&mut self, results: &Results, sent: &[Sent], times: Times) -> io::Result<()> {
        if self.json {
            return write(&summary("second", results, sent, times));
        }
        if self.redraws {
            return self.draw(results, sent, times);
        }
        let line = results.line();
        writeln!(io::stdout().lock(), "{:>4.0} s  {}", times.steady.as_secs_f64(), printable(&line))
    }

    /// How it ended.
    pub(super) fn last(&mut self, results: &Results, sent: &[Sent], times: Times) -> io::Result<()> {
        if self.json {
            return write(&summary("end", results, sent, times));
        }
        self.draw(results, sent, times)
    }

    fn draw(&mut self, results: &Results, sent: &[Sent], times: Times) -> io::Result<()> {
        let text = format!("{}\n\nAfter {:.0} s.\n", results.tables(sent), times.steady.as_secs_f64());
        let mut out = io::stdout().lock();
        if self.lines > 0 {
            // Up to the first line of the last table, and clear everything below.
            write!(out, "\x1b[{}A\x1b[J", self.lines)?;
        }
        out.write_all(printable(&text).as_bytes())?;
        out.flush()?;
        if self.redraws {
            self.lines = text.lines().count();
        }
        Ok(())
    }
}

fn write(value: &Value) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{value}")
}

fn summary(event: &str, results: &Results, sent: &[Sent], times: Times) -> Value {
    let (steady, startup) = (seconds(times.steady), seconds(times.startup));
    let mut summary = json!({"event": event, "seconds": steady, "startup_seconds": startup});
    if let (Value::Object(summary), Value::Object(results)) = (&mut summary, results.json(sent)) {
        summary.extend(results);
    }
    summary
}

fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 100.0).round() / 100.0
}
