//! Settings of Kuma's control plane (2.14), so that `kodiak run` takes its configuration file and its variables.
//!
//! `table.rs` has one row for each setting. A setting that means the same here is used, one whose value would change
//! what is secure or reachable is refused with the reason, and one without effect is reported.

mod convert;
mod table;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::Value;

pub(crate) use table::SETTINGS;

/// A setting of Kuma.
pub(crate) struct KumaSetting {
    /// A path that ends with `.*` stands for all settings below it.
    pub(crate) path: &'static str,
    /// Empty when it follows from the path; `apiServer.http.port` is `KUMA_API_SERVER_HTTP_PORT`.
    variable: &'static str,
    pub(crate) meaning: Meaning,
}

/// Use of a setting here.
pub(crate) enum Meaning {
    /// Our setting with the same path.
    Same,
    /// Another setting of ours, or other values.
    As(&'static str, fn(&str) -> Result<String, String>),
    /// Fixed here: these values are accepted, and others are refused with the reason.
    Only(&'static [&'static str], &'static str),
    /// Without effect here, with the reason.
    Ignored(&'static str),
}

impl KumaSetting {
    /// The path, or the path of the section whose settings it stands for.
    pub(crate) fn section_or_path(&self) -> &'static str {
        self.path.strip_suffix(".*").unwrap_or(self.path)
    }

    pub(crate) fn variable(&self) -> Cow<'static, str> {
        match self.variable {
            "" => Cow::Owned(variable("KUMA", self.section_or_path().split('.'))),
            named => Cow::Borrowed(named),
        }
    }

    fn stands_for_many(&self) -> bool {
        self.path.ends_with(".*")
    }
}

pub(crate) fn by_path(path: &str) -> Option<&'static KumaSetting> {
    SETTINGS.iter().find(|setting| setting.section_or_path() == path)
}

pub(crate) fn by_variable(name: &str) -> Option<&'static KumaSetting> {
    SETTINGS.iter().find(|setting| {
        let variable = setting.variable();
        name == variable
            || setting.stands_for_many() && name.strip_prefix(&*variable).is_some_and(|rest| rest.starts_with('_'))
    })
}

/// Whether the variable looks like one of the control plane. Those of kuma-dp and kumactl do not.
pub(crate) fn is_of_the_control_plane(name: &str) -> bool {
    let section = |setting: &KumaSetting| setting.path.split('.').next().map(|section| variable("KUMA", [section]));
    let mut sections = SETTINGS.iter().filter_map(section);
    sections.any(|section| name.strip_prefix(&section).is_some_and(|rest| rest.is_empty() || rest.starts_with('_')))
        || table::IRREGULAR_SECTIONS.iter().any(|section| name.starts_with(section))
}

/// Checks the value of a setting that is fixed here.
pub(crate) fn check_fixed(text: &str, accepted: &[&str], why: &str) -> Result<(), String> {
    if text.is_empty() || accepted.contains(&text) {
        return Ok(());
    }
    let advice = match accepted {
        [] => "remove it".to_owned(),
        accepted => format!("remove it, or set it to {}", accepted.join(" or ")),
    };
    Err(format!("{text:?} is not supported: {why}; {advice}"))
}

/// A value as the text that a variable would have.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text_of).collect::<Vec<_>>().join(","),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// `apiServer`, `http` as `KUMA_API_SERVER_HTTP`.
pub(crate) fn variable<'a>(prefix: &str, path: impl IntoIterator<Item = &'a str>) -> String {
    let mut name = prefix.to_owned();
    for segment in path {
        name.push('_');
        for c in segment.chars() {
            if c.is_ascii_uppercase() {
                name.push('_');
            }
            name.push(c.to_ascii_uppercase());
        }
    }
    name
}
