//! Merges the families of several sources into one valid exposition.
//!
//! Prometheus rejects a scrape with two series of the same name and labels, or with two types for one name. So the first
//! source wins, and what contradicts it is dropped and counted.

use std::collections::{BTreeMap, HashSet};

use super::exposition::{Family, MetricType};

/// Families by name: sorted, and each name once.
#[derive(Debug, Default)]
pub(super) struct Merged {
    families: BTreeMap<String, Family>,
}

impl Merged {
    pub(super) fn families(&self) -> impl Iterator<Item = &Family> {
        self.families.values()
    }

    /// Returns how many samples were dropped.
    pub(super) fn add(&mut self, families: Vec<Family>) -> usize {
        families.into_iter().map(|family| self.add_family(family)).sum()
    }

    fn add_family(&mut self, mut family: Family) -> usize {
        let before = family.samples.len();
        if self.contradicts(&family) {
            return before;
        }
        let known = self.families.get_mut(&family.name);
        let mut seen = HashSet::new();
        if let Some(known) = &known {
            seen.extend(known.samples.iter().map(|sample| (sample.name.clone(), sample.labels.clone())));
        }
        family.samples.retain(|sample| seen.insert((sample.name.clone(), sample.labels.clone())));
        let dropped = before - family.samples.len();
        match known {
            Some(known) => known.samples.append(&mut family.samples),
            None => drop(self.families.insert(family.name.clone(), family)),
        }
        dropped
    }

    /// Whether its samples have the names of another family, or its name has another type.
    fn contradicts(&self, family: &Family) -> bool {
        let Family { name, metric_type, .. } = family;
        if let Some(known) = self.families.get(name) {
            return known.metric_type != *metric_type;
        }
        let suffixes = MetricType::Histogram.suffixes().iter();
        let part_of_other = suffixes.clone().any(|suffix| {
            let base = name.strip_suffix(suffix).and_then(|base| self.families.get(base));
            base.is_some_and(|base| base.metric_type.suffixes().contains(suffix))
        });
        let has_other_as_part =
            metric_type.suffixes().iter().any(|suffix| self.families.contains_key(&format!("{name}{suffix}")));
        part_of_other || has_other_as_part
    }
}

#[cfg(test)]
mod tests {
    use super::super::exposition::write;
    use super::super::parse::{TextFormat, parse};
    use super::*;

    fn merged(sources: &[&str]) -> (String, usize) {
        let mut merged = Merged::default();
        let dropped = sources.iter().map(|text| merged.add(parse(text, TextFormat::Prometheus).families)).sum();
        (write(merged.families()), dropped)
    }

    #[test]
    fn families_of_several_sources_become_one() {
        let (text, dropped) = merged(&["# TYPE b counter\nb{x=\"1\"} 1\n", "a 1\n# TYPE b counter\nb{x=\"2\"} 2\n"]);
        assert_eq!(text, "# TYPE a untyped\na 1\n# TYPE b counter\nb{x=\"1\"} 1\nb{x=\"2\"} 2\n");
        assert_eq!(dropped, 0);
    }

    #[test]
    fn first_series_wins() {
        assert_eq!(merged(&["a 1\n", "a 2\n"]), ("# TYPE a untyped\na 1\n".to_owned(), 1));
        assert_eq!(merged(&["a 1\na 2\n"]), ("# TYPE a untyped\na 1\n".to_owned(), 1));
    }

    #[test]
    fn other_types_and_names_of_parts_are_dropped() {
        let histogram = "# TYPE a histogram\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 1\n";
        assert_eq!(merged(&[histogram, "# TYPE a gauge\na 1\n", "a_sum 2\n"]), (histogram.to_owned(), 2));
        assert_eq!(merged(&["a_sum 2\n", histogram]), ("# TYPE a_sum untyped\na_sum 2\n".to_owned(), 3));
    }
}
