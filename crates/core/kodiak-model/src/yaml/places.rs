//! Where the fields of a document stood.

use std::collections::BTreeMap;

use super::Mark;

/// From path to place. Paths are taken as problems print them: `spec.to[0].tags["kuma.io/service"]`.
#[derive(Debug, Clone, Default)]
pub struct Places(BTreeMap<Vec<Step>, Mark>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// The place of a path, or of its nearest parent that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub mark: Mark,
    pub exact: bool,
}

impl Places {
    pub(super) fn insert(&mut self, path: Vec<Step>, mark: Mark) {
        self.0.insert(path, mark);
    }

    pub fn find(&self, path: &str) -> Option<Found> {
        let mut steps = steps(path);
        let whole = steps.len();
        loop {
            if let Some(mark) = self.0.get(&steps) {
                return Some(Found { mark: *mark, exact: steps.len() == whole });
            }
            steps.pop()?;
        }
    }
}

fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix("[\"") {
            let end = quoted.find("\"]").unwrap_or(quoted.len());
            steps.push(Step::Key(quoted[..end].to_owned()));
            rest = quoted.get(end + 2..).unwrap_or_default();
        } else if let Some(indexed) = rest.strip_prefix('[') {
            let end = indexed.find(']').unwrap_or(indexed.len());
            steps.push(indexed[..end].parse().map_or_else(|_| Step::Key(indexed[..end].to_owned()), Step::Index));
            rest = indexed.get(end + 1..).unwrap_or_default();
        } else {
            let field = rest.strip_prefix('.').unwrap_or(rest);
            let end = field.find(['.', '[']).unwrap_or(field.len());
            if end > 0 {
                steps.push(Step::Key(field[..end].to_owned()));
            }
            rest = &field[end..];
        }
    }
    steps
}
