//! Modifications of a list of filters, network or HTTP.

use kodiak_envoy::envoy::config::listener::v3::{Filter, filter};
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{HttpFilter, http_filter};
use kodiak_envoy::google::protobuf::Any;
use kodiak_envoy::merge::merge_any;
use kodiak_model::Choice;

use super::value::{NamedMessage, chain, parse, patch_any};
use super::{FilterOperation, JsonPatch};

/// A filter with a typed configuration.
pub(super) trait ConfiguredFilter: NamedMessage {
    fn config(&self) -> Option<&Any>;
    fn set_config(&mut self, config: Any);
    /// Merges the fields beside name and configuration.
    fn merge_flags(&mut self, patch: &Self);
}

impl ConfiguredFilter for Filter {
    fn config(&self) -> Option<&Any> {
        match &self.config_type {
            Some(filter::ConfigType::TypedConfig(config)) => Some(config),
            Some(filter::ConfigType::ConfigDiscovery(_)) | None => None,
        }
    }

    fn set_config(&mut self, config: Any) {
        self.config_type = Some(filter::ConfigType::TypedConfig(config));
    }

    fn merge_flags(&mut self, _: &Self) {}
}

impl ConfiguredFilter for HttpFilter {
    fn config(&self) -> Option<&Any> {
        match &self.config_type {
            Some(http_filter::ConfigType::TypedConfig(config)) => Some(config),
            Some(http_filter::ConfigType::ConfigDiscovery(_)) | None => None,
        }
    }

    fn set_config(&mut self, config: Any) {
        self.config_type = Some(http_filter::ConfigType::TypedConfig(config));
    }

    fn merge_flags(&mut self, patch: &Self) {
        self.is_optional |= patch.is_optional;
        self.disabled |= patch.disabled;
    }
}

#[derive(Debug)]
pub(super) enum FilterEdit<F> {
    AddFirst(Box<F>),
    AddLast(Box<F>),
    AddBefore(Box<F>),
    AddAfter(Box<F>),
    Remove,
    Merge(Box<F>),
    Json(Vec<JsonPatch>),
}

impl<F: ConfiguredFilter> FilterEdit<F> {
    pub(super) fn of(
        operation: Option<&Choice<FilterOperation>>,
        value: Option<&str>,
        patches: Option<&[JsonPatch]>,
    ) -> Result<Self, String> {
        let value = || parse(value.unwrap_or_default()).map(Box::new);
        match operation.and_then(Choice::known) {
            Some(FilterOperation::AddFirst) => value().map(Self::AddFirst),
            Some(FilterOperation::AddLast) => value().map(Self::AddLast),
            Some(FilterOperation::AddBefore) => value().map(Self::AddBefore),
            Some(FilterOperation::AddAfter) => value().map(Self::AddAfter),
            Some(FilterOperation::Remove) => Ok(Self::Remove),
            Some(FilterOperation::Patch) => match patches.unwrap_or_default() {
                [] => value().map(Self::Merge),
                patches => Ok(Self::Json(patches.to_vec())),
            },
            None => Err("the operation is unknown".to_owned()),
        }
    }

    /// `name` selects filters of the list. A filter is added beside the first of them.
    pub(super) fn apply(&self, filters: &mut Vec<F>, name: Option<&str>) -> Result<(), String> {
        let is_selected = |filter: &F| name.is_none_or(|name| name == filter.name());
        match self {
            Self::AddFirst(filter) => filters.insert(0, (**filter).clone()),
            Self::AddLast(filter) => filters.push((**filter).clone()),
            Self::AddBefore(filter) => {
                if let Some(place) = filters.iter().position(is_selected) {
                    filters.insert(place, (**filter).clone());
                }
            }
            Self::AddAfter(filter) => {
                if let Some(place) = filters.iter().position(is_selected) {
                    filters.insert(place + 1, (**filter).clone());
                }
            }
            Self::Remove => filters.retain(|filter| !is_selected(filter)),
            Self::Merge(patch) => {
                for filter in filters.iter_mut().filter(|filter| is_selected(filter)) {
                    merge_filter(filter, patch)?;
                }
            }
            Self::Json(patches) => {
                for filter in filters.iter_mut().filter(|filter| is_selected(filter)) {
                    let config = filter.config().ok_or_else(|| without_config(filter))?;
                    let config = patch_any(config, patches)?;
                    filter.set_config(config);
                }
            }
        }
        Ok(())
    }
}

/// Merges the typed configurations, which must have the same type. The filter keeps its name.
fn merge_filter<F: ConfiguredFilter>(filter: &mut F, patch: &F) -> Result<(), String> {
    filter.merge_flags(patch);
    let merged = match (filter.config(), patch.config()) {
        (Some(config), Some(patch)) => merge_any(config, patch).map_err(|error| chain(&error))?,
        (None, Some(_)) => return Err(without_config(filter)),
        (_, None) => return Ok(()),
    };
    filter.set_config(merged);
    Ok(())
}

fn without_config(filter: &impl NamedMessage) -> String {
    format!("filter {:?} has no typedConfig to patch", filter.name())
}
