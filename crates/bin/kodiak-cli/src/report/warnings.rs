//! Warnings, each text once: a thousand resources with one deprecated field are one warning.

use std::collections::BTreeMap;

/// Texts in the order in which they first came.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    order: Vec<String>,
    seen: BTreeMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    first: String,
    count: usize,
}

impl Warnings {
    /// `place` says where: `policies.yaml:12`.
    pub(crate) fn add(&mut self, text: &str, place: impl FnOnce() -> String) {
        if let Some(seen) = self.seen.get_mut(text) {
            seen.count += 1;
            return;
        }
        self.order.push(text.to_owned());
        self.seen.insert(text.to_owned(), Seen { first: place(), count: 1 });
    }

    /// The lines to print.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.order.iter().filter_map(|text| {
            let Seen { first, count } = self.seen.get(text)?;
            Some(match count {
                1 => format!("Warning: {text} ({first})"),
                _ => format!("Warning: {text} ({count} times, first {first})"),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_said_once_with_its_count() {
        let mut warnings = Warnings::default();
        for (text, place) in [("old", "a.yaml:1"), ("odd", "a.yaml:9"), ("old", "b.yaml:2"), ("old", "b.yaml:3")] {
            warnings.add(text, || place.to_owned());
        }
        let lines: Vec<_> = warnings.lines().collect();
        assert_eq!(lines, ["Warning: old (3 times, first a.yaml:1)", "Warning: odd (a.yaml:9)"]);
    }
}
