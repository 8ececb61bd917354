//! Positions of the fields of a document.

use std::collections::BTreeMap;

use super::Mark;

/// Maps paths to positions. Paths are written as in problems: `spec.to[0].tags["kuma.io/service"]`.
///
/// A tree in which every step is stored once: with whole paths as keys, one long field name would be copied for every
/// value below it.
#[derive(Debug, Clone)]
pub struct Places {
    children: BTreeMap<(usize, Step), usize>,
    /// By node; the first is the document itself.
    marks: Vec<Option<Mark>>,
}

/// The node of the document itself.
pub(super) const ROOT: usize = 0;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// Position of a path, or of its nearest ancestor in the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub mark: Mark,
    pub exact: bool,
}

impl Default for Places {
    fn default() -> Self {
        Self { children: BTreeMap::new(), marks: vec![None] }
    }
}

impl Places {
    /// The child node for a step; added if it does not exist.
    pub(super) fn child(&mut self, parent: usize, step: Step) -> usize {
        let Self { children, marks } = self;
        *children.entry((parent, step)).or_insert_with(|| {
            marks.push(None);
            marks.len() - 1
        })
    }

    pub(super) fn mark(&mut self, node: usize, mark: Mark) {
        if let Some(known) = self.marks.get_mut(node) {
            *known = Some(mark);
        }
    }

    pub fn find(&self, path: &str) -> Option<Found> {
        let of = |node: usize| self.marks.get(node).copied().flatten();
        let mut node = Some(ROOT);
        let mut found = of(ROOT).map(|mark| Found { mark, exact: true });
        for step in steps(path) {
            node = node.and_then(|node| self.children.get(&(node, step)).copied());
            match node.and_then(of) {
                Some(mark) => found = Some(Found { mark, exact: true }),
                None => found = found.map(|found| Found { exact: false, ..found }),
            }
        }
        found
    }

    /// Bytes of text in the tree.
    #[cfg(test)]
    pub(super) fn text_bytes(&self) -> usize {
        let length = |step: &Step| if let Step::Key(key) = step { key.len() } else { 0 };
        self.children.keys().map(|(_, step)| length(step)).sum()
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
