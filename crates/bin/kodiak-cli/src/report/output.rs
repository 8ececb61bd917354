//! Output formats that most commands have.

use clap::ValueEnum;
use kodiak_model::yaml;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Human-readable
    Table,
    Yaml,
    Json,
}

impl Output {
    /// Formats `document`, without a newline at its end. `table` makes the human-readable form.
    pub(crate) fn show(self, document: &impl Serialize, table: impl FnOnce() -> String) -> anyhow::Result<String> {
        Ok(match self {
            Self::Table => table().trim_end().to_owned(),
            Self::Yaml => yaml::to_string(&serde_json::to_value(document)?).trim_end().to_owned(),
            Self::Json => serde_json::to_string_pretty(&serde_json::to_value(document)?)?,
        })
    }
}

pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}
