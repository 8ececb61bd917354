//! Links between files of the repository become links between pages of the book.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The text of the page `name` with links that fit the book. `origin` is the file that its links are relative to;
/// `names` has the page of each file that is part of the book. Links to other files keep their text only.
pub(super) fn links(text: &str, name: &str, origin: &str, names: &BTreeMap<String, String>) -> String {
    let mut rewritten = String::with_capacity(text.len());
    let mut in_code = false;
    for line in text.split_inclusive('\n') {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        if in_code || fence {
            rewritten.push_str(line);
            continue;
        }
        // Text and code alternate between backticks.
        for (index, part) in line.split('`').enumerate() {
            if index > 0 {
                rewritten.push('`');
            }
            if index % 2 == 0 {
                rewritten.push_str(&in_text(part, name, origin, names));
            } else {
                rewritten.push_str(part);
            }
        }
    }
    rewritten
}

fn in_text(text: &str, name: &str, origin: &str, names: &BTreeMap<String, String>) -> String {
    let mut rewritten = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let Some((target, after)) = after.split_once(')') else { break };
        rewritten.push_str(before);
        rest = after;
        if !is_relative(target) {
            let _ = write!(rewritten, "]({target})");
            continue;
        }
        let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
        let page = resolve(origin, path).and_then(|path| names.get(&path));
        match (page, rewritten.rfind('[')) {
            (Some(page), _) => {
                let separator = if fragment.is_empty() { "" } else { "#" };
                let _ = write!(rewritten, "]({}{separator}{fragment})", from_page(name, page));
            }
            // A file of the repository that is no page: its text says enough.
            (None, Some(start)) => drop(rewritten.remove(start)),
            (None, None) => {
                let _ = write!(rewritten, "]({target})");
            }
        }
    }
    rewritten + rest
}

fn is_relative(target: &str) -> bool {
    let has_scheme = target.split('/').next().is_some_and(|start| start.contains(':'));
    !target.is_empty() && !target.starts_with('#') && !has_scheme
}

/// The path that a link in the file `origin` means, seen from the root. `None` when it is outside of the repository.
fn resolve(origin: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = origin.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => (),
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The relative link from one page to another.
fn from_page(from: &str, to: &str) -> String {
    let depth = from.matches('/').count();
    let (from, to): (Vec<_>, Vec<_>) = (from.split('/').collect(), to.split('/').collect());
    let shared = from.iter().zip(&to).take_while(|(from, to)| from == to).count().min(depth).min(to.len() - 1);
    let ups = std::iter::repeat_n("..", depth - shared);
    ups.chain(to[shared..].iter().copied()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_or_lose_their_target() {
        let names = BTreeMap::from([
            ("docs/operations/stores.md".to_owned(), "operations/stores.md".to_owned()),
            ("SECURITY.md".to_owned(), "security.md".to_owned()),
        ]);
        let text = "See [a](stores.md#backup), [b](../../SECURITY.md), [c](../../crates/x.rs) and [d](https://e.f).\n\
                    `[x](stores.md)` [here](#there)\n```\n[y](../../SECURITY.md)\n```\n";
        let expected = "See [a](stores.md#backup), [b](../security.md), c and [d](https://e.f).\n\
                        `[x](stores.md)` [here](#there)\n```\n[y](../../SECURITY.md)\n```\n";
        assert_eq!(links(text, "operations/access.md", "docs/operations/access.md", &names), expected);
    }

    #[test]
    fn pages_are_linked_by_the_shortest_way() {
        assert_eq!(from_page("a.md", "b.md"), "b.md");
        assert_eq!(from_page("x/a.md", "x/b.md"), "b.md");
        assert_eq!(from_page("x/y/a.md", "x/b.md"), "../b.md");
        assert_eq!(from_page("a.md", "x/b.md"), "x/b.md");
        assert_eq!(from_page("x/a.md", "b.md"), "../b.md");
    }
}
