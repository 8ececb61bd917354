//! Conversions from policy fields to Envoy's messages.

use kodiak_envoy::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use kodiak_envoy::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use kodiak_envoy::envoy::config::route::v3::{Route, RouteAction, route};
use kodiak_envoy::google::protobuf;
use kodiak_model::GoDuration;

use crate::header::HeaderKeyValue;

/// `None` for negative durations, which validation rejects.
pub(crate) fn duration(written: GoDuration) -> Option<protobuf::Duration> {
    written.to_std().map(kodiak_envoy::duration)
}

/// Sets a field when the conf has a value for it; otherwise leaves it unchanged.
pub(crate) fn set_duration(field: &mut Option<protobuf::Duration>, written: Option<GoDuration>) {
    if let Some(written) = written.and_then(duration) {
        *field = Some(written);
    }
}

/// Like [`set_duration`], for values that need no conversion.
pub(crate) fn set<T>(field: &mut Option<T>, written: Option<T>) {
    if written.is_some() {
        *field = written;
    }
}

/// A header to add. Envoy would expand command operators in the value, and reject the whole resource for an unknown one,
/// so `%` is escaped.
pub(crate) fn header_value(header: &HeaderKeyValue, action: HeaderAppendAction) -> HeaderValueOption {
    let HeaderKeyValue { name, value } = header;
    let header = HeaderValue { key: name.clone(), value: value.replace('%', "%%"), ..HeaderValue::default() };
    HeaderValueOption { header: Some(header), append_action: action.into(), ..HeaderValueOption::default() }
}

/// Routes that forward to a cluster, with their names. Timeouts and retries do not apply to other routes, which Envoy
/// answers itself.
pub(crate) fn actions(routes: &mut [Route]) -> impl Iterator<Item = (&str, &mut RouteAction)> {
    routes.iter_mut().filter_map(|Route { name, action, .. }| match action {
        Some(route::Action::Route(action)) => Some((name.as_str(), action)),
        _ => None,
    })
}
