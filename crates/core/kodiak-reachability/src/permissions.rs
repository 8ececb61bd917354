//! Permissions of inbounds, each distinct one evaluated once.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use kodiak_policies::mesh_traffic_permission::{Action, Permissions, UriMatch};

use crate::{
    IdentityId, IdentitySet,
    identities::{Identities, matches_of},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PermissionsId(u32);

#[derive(Default)]
pub(crate) struct Evaluations {
    ids: HashMap<Arc<Permissions>, PermissionsId>,
    known: BTreeMap<PermissionsId, Evaluation>,
    /// By the conditions that they have.
    by_match: HashMap<UriMatch, BTreeSet<PermissionsId>>,
    next: u32,
}

pub(crate) struct Evaluation {
    pub(crate) permissions: Arc<Permissions>,
    pub(crate) admitted: IdentitySet,
    /// Whether they admit all callers, also those that join later.
    pub(crate) admits_everybody: bool,
    /// Number of destinations with an inbound of these permissions.
    users: usize,
}

impl Evaluations {
    pub(crate) fn get(&self, id: PermissionsId) -> &Evaluation {
        &self.known[&id]
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn acquire(
        &mut self,
        permissions: &Arc<Permissions>,
        mesh: &str,
        callers: &Identities,
    ) -> PermissionsId {
        if let Some(id) = self.ids.get(permissions).copied() {
            if let Some(evaluation) = self.known.get_mut(&id) {
                evaluation.users += 1;
            }
            return id;
        }
        let id = PermissionsId(self.next);
        self.next += 1;
        let conditions = permissions.uri_matches(mesh);
        let evaluation = Evaluation {
            permissions: permissions.clone(),
            admitted: permissions.admitted(mesh, callers),
            admits_everybody: conditions.is_empty() && permissions.possible(mesh, &[]).action != Action::Deny,
            users: 1,
        };
        for condition in conditions {
            self.by_match.entry(condition).or_default().insert(id);
        }
        self.ids.insert(permissions.clone(), id);
        self.known.insert(id, evaluation);
        id
    }

    pub(crate) fn release(&mut self, id: PermissionsId, mesh: &str) {
        let Some(evaluation) = self.known.get_mut(&id) else { return };
        evaluation.users -= 1;
        if evaluation.users > 0 {
            return;
        }
        let permissions = evaluation.permissions.clone();
        self.known.remove(&id);
        self.ids.remove(&permissions);
        for condition in permissions.uri_matches(mesh) {
            let Some(having) = self.by_match.get_mut(&condition) else { continue };
            having.remove(&id);
            if having.is_empty() {
                self.by_match.remove(&condition);
            }
        }
    }

    /// Decides again about an identity whose certificate has these URIs. Returns the permissions whose decision changed.
    pub(crate) fn evaluate(
        &mut self,
        identity: IdentityId,
        uris: &[String],
        admits: impl Fn(&Permissions) -> bool,
    ) -> Vec<PermissionsId> {
        let conditions = uris.iter().flat_map(|uri| matches_of(uri));
        let naming: BTreeSet<PermissionsId> =
            conditions.filter_map(|condition| self.by_match.get(&condition)).flatten().copied().collect();
        let mut changed = Vec::new();
        for id in naming {
            let Some(evaluation) = self.known.get_mut(&id) else { continue };
            let admitted = admits(&evaluation.permissions);
            if evaluation.admitted.contains(identity) != admitted {
                evaluation.admitted.set(identity, admitted);
                changed.push(id);
            }
        }
        changed
    }
}
