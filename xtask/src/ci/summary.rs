//! Summary of `ci`: a line per step.

use std::fmt;
use std::time::Duration;

pub(super) struct Row {
    pub(super) step: &'static str,
    pub(super) outcome: Outcome,
    pub(super) elapsed: Duration,
}

pub(super) enum Outcome {
    /// With a note.
    Passed(Option<String>),
    /// With the reason.
    Skipped(String),
    Failed,
    /// An earlier step failed.
    NotReached,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passed(_) => "passed",
            Self::Skipped(_) => "skipped",
            Self::Failed => "FAILED",
            Self::NotReached => "not reached",
        })
    }
}

impl Outcome {
    fn note(&self) -> &str {
        match self {
            Self::Passed(note) => note.as_deref().unwrap_or_default(),
            Self::Skipped(reason) => reason,
            Self::Failed | Self::NotReached => "",
        }
    }

    fn ran(&self) -> bool {
        matches!(self, Self::Passed(_) | Self::Failed)
    }
}

pub(super) fn table(rows: &[Row]) -> String {
    let mut text = format!("{:<12} {:<12} {:>8}\n", "step", "result", "time");
    let mut total = Duration::ZERO;
    for Row { step, outcome, elapsed } in rows {
        total += *elapsed;
        let time = if outcome.ran() { seconds(*elapsed) } else { String::new() };
        let line = format!("{step:<12} {:<12} {time:>8}  {}", outcome.to_string(), outcome.note());
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text + &format!("{:<12} {:<12} {:>8}\n", "total", "", seconds(total))
}

/// Seconds while they are easy to read, then minutes.
pub(super) fn seconds(elapsed: Duration) -> String {
    let whole = elapsed.as_secs();
    if whole < 100 {
        format!("{:.1} s", elapsed.as_secs_f64())
    } else {
        format!("{} m {:02} s", whole / 60, whole % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_per_step() {
        let row = |step, outcome, millis| Row { step, outcome, elapsed: Duration::from_millis(millis) };
        let rows = [
            row("fmt", Outcome::Passed(None), 1_240),
            row("setup", Outcome::Passed(Some("postgres 15".to_owned())), 20),
            row("test", Outcome::Failed, 125_000),
            row("fuzz", Outcome::Skipped("--fast".to_owned()), 0),
            row("conformance", Outcome::NotReached, 0),
        ];
        let expected = "\
step         result           time
fmt          passed          1.2 s
setup        passed          0.0 s  postgres 15
test         FAILED       2 m 05 s
fuzz         skipped                --fast
conformance  not reached
total                     2 m 06 s
";
        assert_eq!(table(&rows), expected);
    }
}
