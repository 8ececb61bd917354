//! The call graph for Graphviz and Mermaid.
//!
//! An edge between several clients and several destinations goes through a junction, so that its lines are as many as
//! its names, not as many as its pairs.

use std::collections::BTreeMap;

use kodiak_inspection::calls::{CallGraph, Names};

use super::{names, reason_text};

#[derive(Default)]
struct Drawing {
    /// Labels of nodes, with their numbers. A service that is a client and a destination is one node.
    nodes: BTreeMap<String, usize>,
    junctions: usize,
    /// From, to, and the label.
    lines: Vec<(Node, Node, String)>,
}

#[derive(Clone, Copy)]
enum Node {
    Named(usize),
    Junction(usize),
}

impl Drawing {
    fn of(graph: &CallGraph) -> Self {
        let mut drawing = Self::default();
        for edge in &graph.edges {
            let (from, to) = (drawing.ends(&edge.clients, "clients"), drawing.ends(&edge.destinations, "destinations"));
            let label = reason_text(&edge.reason);
            if from.len() > 1 && to.len() > 1 {
                let middle = Node::Junction(drawing.junctions);
                drawing.junctions += 1;
                drawing.lines.extend(from.into_iter().map(|from| (from, middle, String::new())));
                drawing.lines.extend(to.into_iter().map(|to| (middle, to, label.clone())));
            } else {
                for from in from {
                    drawing.lines.extend(to.iter().map(|to| (from, *to, label.clone())));
                }
            }
        }
        drawing
    }

    fn ends(&mut self, some: &Names, what: &str) -> Vec<Node> {
        match some {
            Names::All => vec![self.node(format!("all {what}"))],
            Names::AllExcept(_) => {
                let label = names(some).replacen("all", &format!("all {what}"), 1);
                vec![self.node(label)]
            }
            Names::Only(some) => some.iter().map(|name| self.node(name.clone())).collect(),
        }
    }

    fn node(&mut self, label: String) -> Node {
        let next = self.nodes.len();
        Node::Named(*self.nodes.entry(label).or_insert(next))
    }
}

impl std::fmt::Display for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named(n) => write!(f, "n{n}"),
            Self::Junction(n) => write!(f, "j{n}"),
        }
    }
}

pub(super) fn dot(graph: &CallGraph) -> String {
    let drawing = Drawing::of(graph);
    let mut out = vec![format!("digraph \"{}\" {{", in_dot(&graph.mesh)), "  rankdir=LR;".to_owned()];
    out.extend(drawing.nodes.iter().map(|(label, n)| format!("  n{n} [label=\"{}\"];", in_dot(label))));
    out.extend((0..drawing.junctions).map(|n| format!("  j{n} [shape=point];")));
    for (from, to, label) in &drawing.lines {
        out.push(if label.is_empty() {
            format!("  {from} -> {to} [dir=none];")
        } else {
            format!("  {from} -> {to} [label=\"{}\"];", in_dot(label))
        });
    }
    out.push("}".to_owned());
    out.join("\n")
}

pub(super) fn mermaid(graph: &CallGraph) -> String {
    let drawing = Drawing::of(graph);
    let mut out = vec!["flowchart LR".to_owned()];
    out.extend(drawing.nodes.iter().map(|(label, n)| format!("  n{n}[\"{}\"]", in_mermaid(label))));
    out.extend((0..drawing.junctions).map(|n| format!("  j{n}((\" \"))")));
    for (from, to, label) in &drawing.lines {
        out.push(if label.is_empty() {
            format!("  {from} --- {to}")
        } else {
            format!("  {from} -->|\"{}\"| {to}", in_mermaid(label))
        });
    }
    out.join("\n")
}

/// Text within quotes.
fn in_dot(text: &str) -> String {
    one_line(text).replace('\\', "\\\\").replace('"', "\\\"")
}

/// Text within quotes: Mermaid reads `#name;` as a character, and `<` as HTML.
fn in_mermaid(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in one_line(text).chars() {
        match c {
            '"' => escaped.push_str("#quot;"),
            '#' => escaped.push_str("#35;"),
            '<' => escaped.push_str("#lt;"),
            '>' => escaped.push_str("#gt;"),
            '&' => escaped.push_str("#amp;"),
            '`' => escaped.push_str("#96;"),
            c => escaped.push(c),
        }
    }
    escaped
}

fn one_line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}
