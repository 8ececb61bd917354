//! Output of results: a table that is redrawn on a terminal, else lines, or JSON.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use kodiak_terminal::printable;
use serde_json::{Value, json};

use super::guide::Done;
use super::play::{Play, ShownStep, Taken};
use super::view::{Results, Sent};

pub(super) struct Screen {
    json: bool,
    redraws: bool,
    /// Height of the table on the screen.
    lines: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// From the start until all calls worked.
    pub(super) startup: Duration,
    /// Since all calls work.
    pub(super) steady: Duration,
}

/// Results at one moment.
pub(super) struct Shown<'a> {
    pub(super) results: &'a Results,
    pub(super) sent: &'a [Sent],
    pub(super) times: Times,
    pub(super) play: Option<&'a Play>,
}

impl Screen {
    pub(super) fn new(json: bool) -> Self {
        Self { json, redraws: !json && io::stdout().is_terminal(), lines: 0 }
    }

    /// The mesh is ready; `introduction` prints the human-readable text.
    pub(super) fn ready(&self, api: &str, startup: Duration, introduction: impl FnOnce()) -> io::Result<()> {
        if self.json {
            return write(&json!({"event": "ready", "api": api, "startup_seconds": seconds(startup)}));
        }
        introduction();
        Ok(())
    }

    /// Prints a step of the scenario, and its resources. They stay on the screen.
    pub(super) fn step(&mut self, taken: &Taken) -> io::Result<()> {
        let Taken { number, of, title, shown } = taken;
        if self.json {
            let mut event = json!({"event": "step", "step": number, "steps": of, "title": title});
            match shown {
                ShownStep::Applied(yaml) => event["yaml"] = json!(yaml),
                ShownStep::Ran(Done { commands, output }) => {
                    event["commands"] = json!(commands);
                    event["output"] = json!(output);
                }
                ShownStep::Nothing => (),
            }
            return write(&event);
        }
        self.lines = 0;
        let mut text = format!("\nStep {number} of {of}: {title}.\n");
        let mut block = |title: &str, lines: &str| {
            text.push_str(title);
            for line in lines.lines() {
                text.extend(["    ", line, "\n"]);
            }
        };
        match shown {
            ShownStep::Applied(yaml) => block("Applied:\n", yaml),
            ShownStep::Ran(Done { commands, output }) => {
                block("Ran:\n", commands);
                block("Printed:\n", output);
            }
            ShownStep::Nothing => (),
        }
        text.push('\n');
        io::stdout().lock().write_all(printable(&text).as_bytes())
    }

    /// Prints the current results.
    pub(super) fn show(&mut self, shown: &Shown<'_>) -> io::Result<()> {
        if self.json {
            return write(&shown.json("second"));
        }
        if self.redraws {
            return self.draw(shown);
        }
        let mut line = shown.results.line();
        if let Some(play) = shown.play {
            line = format!("{line}\n        {}", play.text().replace('\n', "\n        "));
        }
        writeln!(io::stdout().lock(), "{:>4.0} s  {}", shown.times.steady.as_secs_f64(), printable(&line))
    }

    /// Prints the final results.
    pub(super) fn last(&mut self, shown: &Shown<'_>) -> io::Result<()> {
        if self.json {
            return write(&shown.json("end"));
        }
        self.draw(shown)
    }

    fn draw(&mut self, shown: &Shown<'_>) -> io::Result<()> {
        let Shown { results, sent, times, play } = shown;
        let mut text = results.tables(sent);
        if let Some(play) = play {
            text = format!("{text}\n\n{}", play.text());
        }
        let text = format!("{text}\n\nAfter {:.0} s.\n", times.steady.as_secs_f64());
        let mut out = io::stdout().lock();
        if self.lines > 0 {
            // Move up to the first line of the last table, and clear everything below.
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

impl Shown<'_> {
    fn json(&self, event: &str) -> Value {
        let (steady, startup) = (seconds(self.times.steady), seconds(self.times.startup));
        let mut summary = json!({"event": event, "seconds": steady, "startup_seconds": startup});
        if let (Value::Object(summary), Value::Object(results)) = (&mut summary, self.results.json(self.sent)) {
            summary.extend(results);
        }
        if let Some(play) = self.play {
            summary["scenario"] = play.json();
        }
        summary
    }
}

fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 100.0).round() / 100.0
}
