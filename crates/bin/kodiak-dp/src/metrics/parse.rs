//! Parses the text format of Prometheus, and OpenMetrics.
//!
//! Lines that are invalid are dropped and counted: one broken series should not cost the others. OpenMetrics becomes the
//! older format: counters are families with `_total`, and exemplars, units and creation times are left out.

use std::collections::HashMap;

use super::exposition::{Family, MetricType, Sample};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextFormat {
    Prometheus,
    OpenMetrics,
}

impl TextFormat {
    pub(super) fn of(content_type: &str) -> Self {
        if content_type.trim_start().starts_with("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Parsed {
    /// In the order of their first line.
    pub(super) families: Vec<Family>,
    /// Lines that were dropped.
    pub(super) invalid: usize,
}

pub(super) fn parse(text: &str, format: TextFormat) -> Parsed {
    let mut parser = Parser { format, families: Vec::new(), by_name: HashMap::new(), declared: None, invalid: 0 };
    for line in text.lines() {
        parser.line(line.trim());
    }
    parser.families.retain(|family| !family.samples.is_empty());
    Parsed { families: parser.families, invalid: parser.invalid }
}

struct Parser {
    format: TextFormat,
    families: Vec<Family>,
    by_name: HashMap<String, usize>,
    /// The family of the last comment.
    declared: Option<Declared>,
    invalid: usize,
}

struct Declared {
    /// As it is written.
    name: String,
    written_type: String,
    format: TextFormat,
    family: usize,
}

impl Parser {
    fn line(&mut self, line: &str) {
        if line.is_empty() {
            return;
        }
        let taken = match line.strip_prefix('#') {
            Some(comment) => self.comment(comment.trim_start()),
            None => self.sample(line),
        };
        self.invalid += usize::from(taken.is_none());
    }

    /// `None` if the line is invalid.
    fn comment(&mut self, comment: &str) -> Option<()> {
        let mut words = comment.splitn(3, [' ', '\t']);
        let (keyword, name, rest) = (words.next()?, words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match keyword {
            "HELP" if is_name(name) => {
                let family = match self.declared.as_ref().filter(|declared| declared.name == name) {
                    Some(declared) => declared.family,
                    None => self.family(name, MetricType::Untyped),
                };
                let help = &mut self.families.get_mut(family)?.help;
                help.get_or_insert_with(|| rest.to_owned());
                Some(())
            }
            "TYPE" if is_name(name) => self.declare(name, rest.trim()),
            "HELP" | "TYPE" => None,
            // Comments, `# UNIT` and `# EOF`.
            _ => Some(()),
        }
    }

    fn declare(&mut self, name: &str, written_type: &str) -> Option<()> {
        let metric_type = match (written_type, self.format) {
            ("counter", _) => MetricType::Counter,
            ("gauge", _) | ("info" | "stateset", TextFormat::OpenMetrics) => MetricType::Gauge,
            ("histogram", _) => MetricType::Histogram,
            ("summary", _) => MetricType::Summary,
            ("untyped", TextFormat::Prometheus) | ("unknown" | "gaugehistogram", TextFormat::OpenMetrics) => {
                MetricType::Untyped
            }
            _ => return None,
        };
        // In OpenMetrics a suffix belongs to each sample; in the older format, to the name of the family.
        let family_name = match (written_type, self.format) {
            ("counter", TextFormat::OpenMetrics) if !name.ends_with("_total") => format!("{name}_total"),
            ("info", TextFormat::OpenMetrics) if !name.ends_with("_info") => format!("{name}_info"),
            _ => name.to_owned(),
        };
        let help = self.by_name.get(name).and_then(|at| self.families.get(*at)).and_then(|family| family.help.clone());
        let family = self.family(&family_name, metric_type);
        let made = self.families.get_mut(family)?;
        made.help = made.help.take().or(help);
        if made.samples.is_empty() {
            made.metric_type = metric_type;
        }
        let (name, written_type) = (name.to_owned(), written_type.to_owned());
        self.declared = Some(Declared { name, written_type, format: self.format, family });
        Some(())
    }

    fn sample(&mut self, line: &str) -> Option<()> {
        let (sample, rest) = read_sample(line)?;
        let timestamp = match self.format {
            TextFormat::Prometheus => rest.map(str::parse::<i64>).transpose().ok()?,
            TextFormat::OpenMetrics => match rest.filter(|rest| !rest.starts_with('#')) {
                #[expect(clippy::cast_possible_truncation, reason = "saturates")]
                Some(rest) => Some((rest.split(' ').next()?.parse::<f64>().ok()? * 1000.0) as i64),
                None => None,
            },
        };
        let sample = Sample { timestamp, ..sample };
        let family = match self.declared.as_ref().map(|declared| declared.owns(&sample.name)) {
            Some(Owned::Yes(family)) => family,
            Some(Owned::LeftOut) => return Some(()),
            Some(Owned::No) | None => self.family(&sample.name.clone(), MetricType::Untyped),
        };
        let family = self.families.get_mut(family)?;
        let is_part = family.metric_type != MetricType::Histogram || sample.name != family.name;
        is_part.then(|| family.samples.push(sample))
    }

    fn family(&mut self, name: &str, metric_type: MetricType) -> usize {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        self.families.push(Family { name: name.to_owned(), metric_type, help: None, samples: Vec::new() });
        self.by_name.insert(name.to_owned(), self.families.len() - 1);
        self.families.len() - 1
    }
}

enum Owned {
    Yes(usize),
    /// A sample without an equivalent in the older format.
    LeftOut,
    No,
}

impl Declared {
    fn owns(&self, sample: &str) -> Owned {
        let Some(suffix) = sample.strip_prefix(self.name.as_str()) else { return Owned::No };
        match (self.written_type.as_str(), suffix, self.format) {
            ("histogram", "_bucket" | "_sum" | "_count", _)
            | ("summary", "" | "_sum" | "_count", _)
            | ("counter", "_total", TextFormat::OpenMetrics)
            | ("info", "_info", TextFormat::OpenMetrics)
            | ("counter" | "untyped", "", TextFormat::Prometheus)
            | ("gauge" | "unknown" | "stateset", "", _) => Owned::Yes(self.family),
            ("counter" | "histogram" | "summary", "_created", TextFormat::OpenMetrics) => Owned::LeftOut,
            _ => Owned::No,
        }
    }
}

/// Without the timestamp, which is the rest.
fn read_sample(line: &str) -> Option<(Sample, Option<&str>)> {
    let end = line.find(|c: char| c == '{' || c.is_ascii_whitespace())?;
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start();
    let (mut labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => read_labels(rest)?,
        None => (Vec::new(), rest),
    };
    let rest = rest.trim_start();
    let (value, rest) = match rest.split_once(|c: char| c.is_ascii_whitespace()) {
        Some((value, rest)) => (value, Some(rest.trim()).filter(|rest| !rest.is_empty())),
        None => (rest, None),
    };
    labels.sort();
    let repeated = labels.windows(2).any(|pair| pair[0].0 == pair[1].0);
    let value = value.parse().ok()?;
    let sample = Sample { name: name.to_owned(), labels, value, timestamp: None };
    (is_name(name) && !repeated).then_some((sample, rest))
}

/// Labels up to the closing brace, and the text after it. Values stay escaped.
fn read_labels(mut text: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        text = text.trim_start();
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once('=')?;
        let name = name.trim();
        let rest = rest.trim_start().strip_prefix('"')?;
        let end = end_of_value(rest)?;
        let (value, after) = rest.split_at_checked(end)?;
        labels.push((is_label(name).then(|| name.to_owned())?, value.to_owned()));
        text = after.strip_prefix('"')?.trim_start();
        text = match text.strip_prefix(',') {
            Some(rest) => rest,
            None if text.starts_with('}') => text,
            None => return None,
        };
    }
}

/// Position of the closing quote. `None` without one, or with an invalid escape.
fn end_of_value(text: &str) -> Option<usize> {
    let mut characters = text.char_indices();
    loop {
        match characters.next()? {
            (position, '"') => return Some(position),
            (_, '\\') => {
                let (_, escape) = characters.next()?;
                matches!(escape, '\\' | '"' | 'n').then_some(())?;
            }
            (_, _) => (),
        }
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == ':')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
}

fn is_label(text: &str) -> bool {
    is_name(text) && !text.contains(':')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::exposition::write;
    use super::*;

    fn rewritten(text: &str, format: TextFormat) -> (String, usize) {
        let parsed = parse(text, format);
        (write(&parsed.families), parsed.invalid)
    }

    #[test]
    fn text_format_is_preserved() {
        let text = concat!(
            "# HELP requests_total Requests.\n",
            "# TYPE requests_total counter\n",
            "requests_total{code=\"200\",path=\"a\\\"b\\\\\"} 7 1395066363000\n",
            "# TYPE time histogram\n",
            "time_bucket{le=\"0.5\"} 1\n",
            "time_bucket{le=\"+Inf\"} 2\n",
            "time_sum 3.5\n",
            "time_count 2\n",
            "# TYPE alone untyped\n",
            "alone NaN\n",
        );
        assert_eq!(rewritten(text, TextFormat::Prometheus), (text.to_owned(), 0));
    }

    #[test]
    fn samples_without_a_type_are_untyped() {
        let (text, invalid) = rewritten("a 1\nb{} 2\n", TextFormat::Prometheus);
        assert_eq!((text.as_str(), invalid), ("# TYPE a untyped\na 1\n# TYPE b untyped\nb 2\n", 0));
    }

    #[test]
    fn open_metrics_becomes_the_older_format() {
        let text = concat!(
            "# TYPE requests counter\n",
            "# UNIT requests requests\n",
            "# HELP requests Requests.\n",
            "requests_total{code=\"200\"} 7 1395066363.5 # {trace=\"a\"} 1\n",
            "requests_created{code=\"200\"} 1395066363.5\n",
            "# TYPE build info\n",
            "build_info{v=\"1\"} 1\n",
            "# EOF\n",
        );
        let expected = concat!(
            "# HELP requests_total Requests.\n",
            "# TYPE requests_total counter\n",
            "requests_total{code=\"200\"} 7 1395066363500\n",
            "# TYPE build_info gauge\n",
            "build_info{v=\"1\"} 1\n",
        );
        assert_eq!(rewritten(text, TextFormat::OpenMetrics), (expected.to_owned(), 0));
    }

    #[test]
    fn invalid_lines_are_dropped_and_counted() {
        let text = "1a 1\na{b} 1\na{b=\"c} 1\na{b=\"\\x\"} 1\na x\na{b=\"1\",b=\"2\"} 1\n# TYPE a b\ngood 1\n";
        let (text, invalid) = rewritten(text, TextFormat::Prometheus);
        assert_eq!((text.as_str(), invalid), ("# TYPE good untyped\ngood 1\n", 7));
    }

    proptest! {
        #[test]
        fn no_text_panics_and_output_is_stable(text in "([a-c_{}=\"\\\\, #0-9.]|\n|# TYPE a counter\n){0,60}") {
            for format in [TextFormat::Prometheus, TextFormat::OpenMetrics] {
                let (once, _) = rewritten(&text, format);
                prop_assert_eq!(rewritten(&once, TextFormat::Prometheus), (once.clone(), 0));
            }
        }
    }
}
