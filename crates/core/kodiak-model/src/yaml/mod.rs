//! Parses and writes YAML. Parsing records the position of every field, so that a problem can be shown with its line.

mod places;
mod reader;
mod scalar;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;

use serde_json::Value;

pub use places::{Found, Places};
pub use reader::parse;
pub use writer::to_string;

/// One document of a YAML stream.
#[derive(Debug, Clone)]
pub struct Document {
    pub value: Value,
    pub places: Places,
    /// Line of its start.
    pub line: usize,
}

/// Position of a text span. Lines and columns count from 1, columns and lengths in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub line: usize,
    pub column: usize,
    pub length: usize,
}

/// Invalid or unsupported YAML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlError {
    pub message: String,
    pub mark: Mark,
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {} column {}", self.message, self.mark.line, self.mark.column)
    }
}

impl std::error::Error for YamlError {}
