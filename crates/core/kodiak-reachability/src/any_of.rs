//! Permissions of which an inbound may have any.

use std::sync::Arc;

use kodiak_policies::mesh_traffic_permission::{Action, Permissions, Verdict};

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

    /// Verdict on a caller whose SNI is unknown: of the first that admits it, else of the last one that denies it.
    pub fn possible(&self, mesh: &str, uris: &[String]) -> Verdict<'_> {
        let mut denied = Verdict { action: Action::Deny, policy: None };
        for verdict in self.0.iter().map(|permissions| permissions.possible(mesh, uris)) {
            match verdict {
                Verdict { action: Action::Deny, policy: None } => (),
                Verdict { action: Action::Deny, .. } => denied = verdict,
                Verdict { .. } => return verdict,
            }
        }
        denied
    }
}

impl From<Arc<Permissions>> for AnyOf {
    fn from(one: Arc<Permissions>) -> Self {
        Self(vec![one])
    }
}
