//! Metric families, and their text format for Prometheus.

use std::fmt::Write as _;

/// Content type of [`write`].
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetricType {
    Counter,
    Gauge,
    Histogram,
    Summary,
    Untyped,
}

impl MetricType {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
            Self::Untyped => "untyped",
        }
    }

    /// Suffixes of the sample names of a family, beside its own name.
    pub(super) fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Histogram => &["_bucket", "_sum", "_count"],
            Self::Summary => &["_sum", "_count"],
            Self::Counter | Self::Gauge | Self::Untyped => &[],
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Family {
    pub(super) name: String,
    pub(super) metric_type: MetricType,
    /// Escaped.
    pub(super) help: Option<String>,
    pub(super) samples: Vec<Sample>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    pub(super) name: String,
    /// Sorted by name. Values are escaped.
    pub(super) labels: Vec<(String, String)>,
    pub(super) value: f64,
    /// Milliseconds.
    pub(super) timestamp: Option<i64>,
}

impl Sample {
    /// Adds a label, unless the sample has one of this name.
    pub(super) fn add_label(&mut self, name: &str, value: &str) {
        if let Err(position) = self.labels.binary_search_by(|(other, _)| other.as_str().cmp(name)) {
            self.labels.insert(position, (name.to_owned(), escaped(value)));
        }
    }
}

pub(super) fn write<'a>(families: impl IntoIterator<Item = &'a Family>) -> String {
    let mut text = String::new();
    for Family { name, metric_type, help, samples } in families {
        if let Some(help) = help {
            line(&mut text, format_args!("# HELP {name} {help}"));
        }
        line(&mut text, format_args!("# TYPE {name} {}", metric_type.as_str()));
        for Sample { name, labels, value, timestamp } in samples {
            text.push_str(name);
            for (position, (label, value)) in labels.iter().enumerate() {
                text.push(if position == 0 { '{' } else { ',' });
                write!(text, "{label}=\"{value}\"").expect("a String takes all that is written");
            }
            if !labels.is_empty() {
                text.push('}');
            }
            text.push(' ');
            text.push_str(&number(*value));
            if let Some(timestamp) = timestamp {
                write!(text, " {timestamp}").expect("a String takes all that is written");
            }
            text.push('\n');
        }
    }
    text
}

fn line(text: &mut String, written: std::fmt::Arguments<'_>) {
    writeln!(text, "{written}").expect("a String takes all that is written");
}

fn number(value: f64) -> String {
    if value == f64::INFINITY {
        "+Inf".to_owned()
    } else if value == f64::NEG_INFINITY {
        "-Inf".to_owned()
    } else {
        // NaN is `NaN`, as Prometheus reads it.
        value.to_string()
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

/// Value of a label without escapes.
pub(super) fn unescaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => text.push('\n'),
                Some(other) => text.push(other),
                None => (),
            },
            other => text.push(other),
        }
    }
    text
}
