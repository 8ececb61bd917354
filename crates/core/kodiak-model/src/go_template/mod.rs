//! The part of Go's `text/template` that resources use: text, `{{ .Field }}`, `{{ label "key" }}`, literals and
//! pipelines.
//!
//! Error texts are Go's, which users know. The parts of Go's syntax that are unsupported (conditions, loops, variables,
//! parentheses) are rejected by name.
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

/// Maximum length of a template, in bytes.
pub const LONGEST: usize = 4096;

/// A parsed template, which can be rendered many times.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    text: String,
    nodes: Vec<parser::Node>,
}

impl Template {
    /// `functions` are the names of the functions, each with one string argument.
    pub fn parse(text: &str, functions: &[&str]) -> Result<Self, TemplateError> {
        if text.len() > LONGEST {
            return Err(TemplateError { line: 1, message: format!("longer than {LONGEST} bytes") });
        }
        Ok(Self { text: text.to_owned(), nodes: parser::parse(text, functions)? })
    }

    /// `call` evaluates `{{ label "key" }}`, given `label` and `key`; its error is a text.
    pub fn render(
        &self,
        fields: &BTreeMap<&str, String>,
        call: &dyn Fn(&str, &str) -> Result<String, String>,
    ) -> Result<String, RenderError> {
        render::render(&self.text, &self.nodes, render::Data { fields, call })
    }
}

/// Implements the function `label` for these labels.
pub fn label_of(labels: &BTreeMap<String, String>) -> impl Fn(&str, &str) -> Result<String, String> {
    |_, key| labels.get(key).cloned().ok_or_else(|| format!("label {key} not found"))
}

/// A template that failed to parse.
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

/// A field, label or argument that could not be evaluated.
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
