//! The part of Go's `text/template` that resources use: text, `{{ .Field }}`, `{{ label "key" }}`, literals and pipelines.
//!
//! Faults are told in the words of Go, because users know them. What Go has and we do not (conditions, loops, variables,
//! parentheses) is refused by name.
//!
//! **Invariant:** work and memory are proportional to the length of the text, which is bounded. Nothing here recurses.

mod lexer;
mod number;
mod parser;
mod quote;
mod render;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt};

pub use quote::quote;

/// The longest text that is read, in bytes.
pub const LONGEST: usize = 4096;

/// A template that was parsed and can be rendered many times.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    text: String,
    nodes: Vec<parser::Node>,
}

impl Template {
    /// `functions` are the names that may be called, each with one string.
    pub fn parse(text: &str, functions: &[&str]) -> Result<Self, TemplateError> {
        if text.len() > LONGEST {
            return Err(TemplateError { line: 1, message: format!("longer than {LONGEST} bytes") });
        }
        Ok(Self { text: text.to_owned(), nodes: parser::parse(text, functions)? })
    }

    /// `call` answers `{{ label "key" }}`, given `label` and `key`, or says why it cannot.
    pub fn render(
        &self,
        fields: &BTreeMap<&str, String>,
        call: &dyn Fn(&str, &str) -> Result<String, String>,
    ) -> Result<String, RenderError> {
        render::render(&self.text, &self.nodes, render::Data { fields, call })
    }
}

/// The function `label` over these labels.
pub fn label_of(labels: &BTreeMap<String, String>) -> impl Fn(&str, &str) -> Result<String, String> {
    |_, key| labels.get(key).cloned().ok_or_else(|| format!("label {key} not found"))
}

/// A text that is no template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    line: usize,
    message: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "template: :{}: {}", self.line, self.message)
    }
}

impl std::error::Error for TemplateError {}

/// A template that asks for what is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderError {
    line: usize,
    /// In bytes, from zero.
    column: usize,
    part: String,
    message: String,
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, part, message } = self;
        write!(f, "template: :{line}:{column}: executing \"\" at <{part}>: {message}")
    }
}

impl std::error::Error for RenderError {}
