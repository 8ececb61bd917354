//! Terminal output, exit codes, signals and argument parsers that every command of `kodiak` shares.
//!
//! A crate of its own, so that `kodiak-demo` and `kodiak-bench` do not depend on the command line, and an edit of a help
//! text does not recompile them.
//!
//! **Invariant:** text from outside cannot control the terminal: control characters are replaced.

#![cfg_attr(test, allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them"))]

mod argument;
mod exit;
mod output;
mod signals;
mod table;

pub use argument::{duration, key_value};
pub use exit::{Exit, Usage, is_broken_pipe, usage};
pub use output::{Terminal, printable};
pub use signals::Signals;
pub use table::Table;
