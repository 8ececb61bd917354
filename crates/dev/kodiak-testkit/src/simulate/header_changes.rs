//! Headers that routes add, replace and remove.

use kodiak_envoy::envoy::config::core::v3::HeaderValueOption;
use kodiak_envoy::envoy::config::core::v3::header_value_option::HeaderAppendAction;

use super::refusal::{Refusal, refuse_if};
use super::request::Headers;

/// Header changes, by level.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    levels: Vec<Level>,
}

/// Header changes of a route, virtual host or route configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Level {
    remove: Vec<String>,
    add: Vec<Added>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Added {
    name: String,
    value: String,
    action: HeaderAppendAction,
}

impl Level {
    pub(super) fn read(add: &[HeaderValueOption], remove: &[String]) -> Result<Self, Refusal> {
        let mut level = Self { remove: remove.iter().map(|name| name.to_ascii_lowercase()).collect(), add: Vec::new() };
        for option in add {
            level.add.extend(read(option)?);
        }
        Ok(level)
    }
}

impl Changes {
    /// From the most specific level to the least, unless the most specific wins.
    pub(super) fn new(mut levels: Vec<Level>, most_specific_wins: bool) -> Self {
        if most_specific_wins {
            levels.reverse();
        }
        Self { levels }
    }

    pub fn apply(&self, headers: &mut Headers) {
        for Level { remove, add } in &self.levels {
            headers.retain(|(name, _)| !remove.contains(name));
            let before = headers.clone();
            let there = |name: &str| before.iter().any(|(other, _)| other == name);
            let overwrites = |added: &&Added| match added.action {
                HeaderAppendAction::OverwriteIfExistsOrAdd => true,
                HeaderAppendAction::OverwriteIfExists => there(&added.name),
                HeaderAppendAction::AppendIfExistsOrAdd | HeaderAppendAction::AddIfAbsent => false,
            };
            let adds = |added: &&Added| match added.action {
                HeaderAppendAction::AppendIfExistsOrAdd => true,
                HeaderAppendAction::AddIfAbsent => !there(&added.name),
                HeaderAppendAction::OverwriteIfExistsOrAdd | HeaderAppendAction::OverwriteIfExists => false,
            };
            for Added { name, value, .. } in add.iter().filter(overwrites) {
                headers.retain(|(other, _)| other != name);
                headers.push((name.clone(), value.clone()));
            }
            let added = add.iter().filter(adds).map(|added| (added.name.clone(), added.value.clone()));
            headers.extend(added);
        }
    }
}

/// `None` for an empty value, which Envoy does not add by default.
#[allow(deprecated, reason = "Envoy still takes `append`")]
fn read(option: &HeaderValueOption) -> Result<Option<Added>, Refusal> {
    let Some(header) = &option.header else { return Ok(None) };
    refuse_if(!header.raw_value.is_empty(), "a header with a raw value")?;
    let value = header.value.replace("%%", "\0");
    refuse_if(value.contains('%'), &format!("the format of header {}: {}", header.key, header.value))?;
    if value.is_empty() && !option.keep_empty_value {
        return Ok(None);
    }
    let action = match option.append {
        Some(true) => HeaderAppendAction::AppendIfExistsOrAdd,
        Some(false) => HeaderAppendAction::OverwriteIfExistsOrAdd,
        None => HeaderAppendAction::try_from(option.append_action)
            .map_err(|_| Refusal::unsupported(format!("the append action {}", option.append_action)))?,
    };
    Ok(Some(Added { name: header.key.to_ascii_lowercase(), value: value.replace('\0', "%"), action }))
}
