//! Reports stored resources that this version cannot read.

use kodiak_world::World;

/// Logs resources that became unreadable between two worlds. `GET /_quarantine` and the status of policies list them.
pub(crate) fn report(before: &World, now: &World) {
    for resource in now.unreadable() {
        let known = before.get(&resource.key).is_some_and(|known| known.revision == resource.revision);
        if !known && let Some(unreadable) = resource.unreadable() {
            tracing::error!(
                resource = %resource.key,
                revision = resource.revision,
                error = unreadable.error,
                "stored resource cannot be read: {}",
                unreadable.fallback
            );
        }
    }
    for resource in now.resources_with_invalid_regexes() {
        let known = before.get(&resource.key).is_some_and(|known| known.revision == resource.revision);
        for (path, reason) in resource.invalid_regexes().iter().filter(|_| !known) {
            tracing::warn!(
                policy = %resource.key, path, reason,
                "stored policy has a regular expression that Envoy cannot compile, it matches nothing"
            );
        }
    }
}
