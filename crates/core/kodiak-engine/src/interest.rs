//! Destinations that a class depends on, also those that do not exist yet.

use std::collections::BTreeSet;

use kodiak_model::{kinds::dataplane::BackendKind, labels};
use kodiak_policies::target::PortRef;
use kodiak_rules::{
    Policy,
    outbound::{PolicyTargets, targets_of},
};
use kodiak_world::destination;

use crate::target::Target;

/// A destination, or all those with a property that a reference names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Interest {
    Target(Target),
    /// Resources of this kind with this label. A reference by several labels has one of them here, and one by name has the
    /// displayed name, whatever the zone and the namespace are.
    Label(BackendKind, String, String),
}

impl Interest {
    /// Resources to which the backend of a route may resolve.
    pub(crate) fn of_backend(written: &PortRef) -> Self {
        match written.labels.first_key_value() {
            Some((key, value)) => Self::Label(written.kind, key.clone(), value.clone()),
            None => Self::named(written.kind, &written.name),
        }
    }

    pub(crate) fn named(kind: BackendKind, name: &str) -> Self {
        Self::Label(kind, labels::DISPLAY_NAME.to_owned(), name.to_owned())
    }

    /// Resources that the `to` items of a policy select, beside `kuma.io/service` destinations. `None`: it may be any.
    pub(crate) fn of_policy(policy: &Policy) -> Option<BTreeSet<Self>> {
        let PolicyTargets::Some { named, old, labels } = targets_of(policy) else { return None };
        let named = named.into_iter().map(|kri| Self::Target(Target::Object(kri.into())));
        let old = old.into_iter().map(|(name, _)| Self::named(BackendKind::MeshService, &name));
        let labelled = labels.into_iter().filter_map(|(kind, labels)| {
            let (_, kind) = destination::KINDS.iter().find(|(known, _)| known.name == kind)?;
            let (key, value) = labels.into_iter().next()?;
            Some(Self::Label(*kind, key, value))
        });
        Some(named.chain(old).chain(labelled).collect())
    }
}
