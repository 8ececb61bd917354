//! Terminal output: results on stdout, everything about them on stderr.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};

use indicatif::{ProgressBar, ProgressStyle};

/// Fewer steps are done before anybody could read a progress bar.
const MIN_PROGRESS_STEPS: usize = 50;

#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    /// Print only results and errors.
    pub quiet: bool,
    /// Colours on stderr.
    pub color: bool,
}

impl Terminal {
    /// Colours are used on a terminal, unless `no_color` or the environment variable NO_COLOR disables them.
    pub fn new(quiet: bool, no_color: bool) -> Self {
        let refused = no_color || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { quiet, color: !refused && io::stderr().is_terminal() }
    }

    /// Prints a line of the result.
    pub fn result(self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(printable(text).as_bytes())?;
        out.write_all(b"\n")
    }

    /// Prints text for other programs: unchanged, unless stdout is a terminal.
    pub fn data(self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if out.is_terminal() {
            drop(out);
            return self.result(text);
        }
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")
    }

    /// Prints a line about work that is done. A closed stdout is no reason to fail, since the work is done.
    pub fn note(self, text: &str) {
        if !self.quiet {
            let _ = self.result(text);
        }
    }

    /// Prints a line about the result to stderr.
    pub fn remark(self, text: &str) {
        if !self.quiet {
            self.error(text);
        }
    }

    /// Prints a line to stderr, also with `quiet`.
    pub fn error(self, text: &str) {
        // With stderr closed there is no place left to report it.
        let _ = writeln!(io::stderr().lock(), "{}", printable(text));
    }

    /// Prints text that has its own colours, and a blank line after it.
    pub fn rendered(self, text: &str) {
        let _ = writeln!(io::stderr().lock(), "{text}\n");
    }

    /// Progress bar for `total` steps; hidden for few steps, or without a terminal.
    pub fn progress(self, message: &'static str, total: usize) -> ProgressBar {
        if self.quiet || total <= MIN_PROGRESS_STEPS {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(u64::try_from(total).unwrap_or(u64::MAX)).with_message(message);
        // The default style is good enough, so an invalid template is ignored.
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {per_sec} {eta}") {
            bar.set_style(style);
        }
        bar
    }

    /// Progress indicator for work of unknown length.
    pub fn spinner(self) -> ProgressBar {
        if self.quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() }
    }
}

/// Replaces characters that control a terminal in text from outside.
pub fn printable(text: &str) -> Cow<'_, str> {
    let controls = |c: char| (c.is_control() && c != '\n' && c != '\t') || is_direction(c);
    if text.contains(controls) { text.replace(controls, "\u{fffd}").into() } else { text.into() }
}

/// Unicode marks that display text in another order than it is stored.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_characters_that_control_a_terminal() {
        assert_eq!(printable("a\nb\tc é"), "a\nb\tc é");
        assert_eq!(printable("\u{1b}[2Jx\r\u{9b}\u{202e}"), "\u{fffd}[2Jx\u{fffd}\u{fffd}\u{fffd}");
    }
}
