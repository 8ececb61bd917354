//! What is written where: results on stdout, everything about them on stderr.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};

use indicatif::{ProgressBar, ProgressStyle};

/// Below this a bar would be gone before anyone saw it.
const WORTH_A_BAR: usize = 50;

#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    /// Only errors and results.
    pub quiet: bool,
    /// Colours on stderr.
    pub color: bool,
}

impl Terminal {
    /// Colours need a terminal, and nobody who said no.
    pub fn new(quiet: bool, no_color: bool) -> Self {
        let refused = no_color || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { quiet, color: !refused && io::stderr().is_terminal() }
    }

    /// A line that says what happened.
    pub fn result(self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(printable(text).as_bytes())?;
        out.write_all(b"\n")
    }

    /// Text for other programs: to the byte, unless it goes to a terminal.
    pub fn data(self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if out.is_terminal() {
            drop(out);
            return self.result(text);
        }
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")
    }

    /// A line that says what was done. It was done whether the line is read or not, so nothing stops when it is not.
    pub fn note(self, text: &str) {
        if !self.quiet {
            let _ = self.result(text);
        }
    }

    /// A line about the result, not part of it.
    pub fn remark(self, text: &str) {
        if !self.quiet {
            self.error(text);
        }
    }

    /// A line that must be seen.
    pub fn error(self, text: &str) {
        // Where stderr is closed there is nobody left to tell.
        let _ = writeln!(io::stderr().lock(), "{}", printable(text));
    }

    /// Text that was rendered with its own colours, and a blank line after it.
    pub fn rendered(self, text: &str) {
        let _ = writeln!(io::stderr().lock(), "{text}\n");
    }

    /// A bar for `total` steps: on a terminal, and when there are many.
    pub fn progress(self, what: &'static str, total: usize) -> ProgressBar {
        if self.quiet || total <= WORTH_A_BAR {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(u64::try_from(total).unwrap_or(u64::MAX)).with_message(what);
        // A bar without a template is as good as one with it, so a bad template is no reason to stop.
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {per_sec} {eta}") {
            bar.set_style(style);
        }
        bar
    }

    /// For work of unknown length.
    pub fn spinner(self) -> ProgressBar {
        if self.quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() }
    }
}

/// Text from outside without what could steer a terminal.
pub fn printable(text: &str) -> Cow<'_, str> {
    let steers = |c: char| (c.is_control() && c != '\n' && c != '\t') || is_direction(c);
    if text.contains(steers) { text.replace(steers, "\u{fffd}").into() } else { text.into() }
}

/// Marks that make text read in another order than it is stored.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_replaced() {
        assert_eq!(printable("a\nb\tc é"), "a\nb\tc é");
        assert_eq!(printable("\u{1b}[2Jx\r\u{9b}\u{202e}"), "\u{fffd}[2Jx\u{fffd}\u{fffd}\u{fffd}");
    }
}
