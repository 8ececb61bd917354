//! Permissions of which an inbound may have any.

use std::sync::Arc;

use kodiak_policies::mesh_traffic_permission::Permissions;

/// Alternatives: the inbound may have any one of these, so a caller that one of them admits may be admitted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AnyOf(Vec<Arc<Permissions>>);

impl AnyOf {
    pub fn of(all: impl IntoIterator<Item = Arc<Permissions>>) -> Self {
        Self(all.into_iter().collect())
    }

    pub(crate) fn permissions(&self) -> &[Arc<Permissions>] {
        &self.0
    }

    /// The permissions that apply to calls with this SNI.
    #[must_use]
    pub fn at(&self, sni: &str) -> Self {
        Self::of(self.0.iter().map(|permissions| permissions.at(sni)))
    }
}

impl From<Arc<Permissions>> for AnyOf {
    fn from(one: Arc<Permissions>) -> Self {
        Self(vec![one])
    }
}
