//! Sidecars of which only some tags and labels are known, and the policies that may select them.

mod policies;
mod proxies;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use kodiak_model::{ProxyType, TargetKind, TargetRef, tags};

pub(crate) use self::policies::PossiblePolicies;
pub use self::{
    policies::{PolicyGroup, Possible},
    proxies::PartialProxies,
};
use crate::{Proxy, policy_index::is_wide};

/// A sidecar with one inbound. It has these properties, and may have others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartialProxy(BTreeMap<Property, String>);

/// Property of a proxy that a target may require.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Property {
    Tag(String),
    Label(String),
    Name,
}

/// Properties that proxies are known to have, without their values.
type Profile = BTreeSet<Property>;

/// Values of properties that a target requires. `*` is any value.
type Requirements = BTreeMap<Property, String>;

impl PartialProxy {
    /// The labels of a proxy, the tags of its first inbound, and its name unless that is empty.
    pub fn of(proxy: &Proxy) -> Self {
        let tags = proxy.dataplane.inbounds().first().into_iter().flat_map(|inbound| &inbound.tags);
        let tags = tags.map(|(key, value)| (Property::Tag(key.clone()), value.clone()));
        let labels = proxy.labels.iter().map(|(key, value)| (Property::Label(key.clone()), value.clone()));
        let name = (!proxy.name.is_empty()).then(|| (Property::Name, proxy.name.to_string()));
        Self(tags.chain(labels).chain(name).collect())
    }

    /// Whether a policy with this target may select it.
    pub fn may_be_selected(&self, target: Option<&TargetRef>) -> bool {
        requirements(target).is_some_and(|required| self.may_have(&required))
    }

    fn may_have(&self, required: &Requirements) -> bool {
        required.iter().all(|(property, value)| value == "*" || self.0.get(property).is_none_or(|known| known == value))
    }

    fn profile(&self) -> Profile {
        self.0.keys().cloned().collect()
    }
}

impl Property {
    /// Lowest for a property whose values probably the fewest proxies share.
    fn breadth(&self) -> (bool, bool) {
        match self {
            Self::Tag(key) | Self::Label(key) => (key != tags::SERVICE, is_wide(key)),
            Self::Name => (false, false),
        }
    }
}

/// `None` for a target that selects no sidecar.
fn requirements(target: Option<&TargetRef>) -> Option<Requirements> {
    let Some(target) = target else { return Some(Requirements::new()) };
    let takes_sidecars = target
        .proxy_types
        .as_ref()
        .is_none_or(|types| types.is_empty() || types.iter().any(|each| each.is(ProxyType::Sidecar)));
    let of = |written: &Option<BTreeMap<String, String>>, property: fn(String) -> Property| -> Requirements {
        written.iter().flatten().map(|(key, value)| (property(key.clone()), value.clone())).collect()
    };
    match target.known_kind()? {
        TargetKind::Mesh => takes_sidecars.then(Requirements::new),
        TargetKind::MeshSubset => takes_sidecars.then(|| of(&target.tags, Property::Tag)),
        TargetKind::MeshService | TargetKind::MeshServiceSubset => {
            let mut required = of(&target.tags, Property::Tag);
            required.extend(target.name.clone().map(|name| (Property::Tag(tags::SERVICE.to_owned()), name)));
            Some(required)
        }
        TargetKind::Dataplane => {
            let mut required = of(&target.labels, Property::Label);
            // The name may be the one that is displayed, so any name may be meant.
            let is_named = target.name.as_ref().is_some_and(|name| !name.is_empty());
            required.extend(is_named.then(|| (Property::Name, "*".to_owned())));
            Some(required)
        }
        TargetKind::MeshGateway
        | TargetKind::MeshExternalService
        | TargetKind::MeshMultiZoneService
        | TargetKind::MeshHTTPRoute => None,
    }
}

/// The required pair that probably the fewest proxies with the properties of a profile have. `None` without one.
fn narrowest<'a>(required: &'a Requirements, profile: &Profile) -> Option<(&'a Property, &'a String)> {
    let known = required.iter().filter(|(property, value)| *value != "*" && profile.contains(property));
    known.min_by_key(|(property, _)| property.breadth())
}
