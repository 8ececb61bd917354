//! What users write, as Envoy has it, and where it goes.

use kodiak_envoy::envoy::config::route::v3::{Route, RouteAction, route};
use kodiak_envoy::google::protobuf;
use kodiak_model::GoDuration;

/// `None` for what is below zero, which no check lets through.
pub(crate) fn duration(written: GoDuration) -> Option<protobuf::Duration> {
    written.to_std().map(kodiak_envoy::duration)
}

/// Sets a field to what a conf says. What it does not say stays as it was.
pub(crate) fn set_duration(field: &mut Option<protobuf::Duration>, written: Option<GoDuration>) {
    if let Some(written) = written.and_then(duration) {
        *field = Some(written);
    }
}

/// As [`set_duration`], for everything that is written as Envoy has it.
pub(crate) fn set<T>(field: &mut Option<T>, written: Option<T>) {
    if written.is_some() {
        *field = written;
    }
}

/// The routes that lead to a cluster, by their names. The others are answered here and wait for nobody.
pub(crate) fn actions(routes: &mut [Route]) -> impl Iterator<Item = (&str, &mut RouteAction)> {
    routes.iter_mut().filter_map(|Route { name, action, .. }| match action {
        Some(route::Action::Route(action)) => Some((name.as_str(), action)),
        _ => None,
    })
}
