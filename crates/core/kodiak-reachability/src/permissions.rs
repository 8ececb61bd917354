//! Permissions of inbounds, each distinct one evaluated once, whichever policies they follow from.
//!
//! Permissions of several parts admit whoever one of the parts admits. A part is evaluated once for all of them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use kodiak_policies::mesh_traffic_permission::{Action, Permissions, UriMatch};

use crate::{
    AnyOf, IdentityId, IdentitySet,
    identities::{Identities, matches_of},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PermissionsId(u32);

#[derive(Default)]
pub(crate) struct Evaluations {
    known: BTreeMap<PermissionsId, Evaluation>,
    /// Without the names of policies: equal permissions of several policies are one.
    by_permissions: HashMap<Permissions, PermissionsId>,
    by_parts: HashMap<BTreeSet<PermissionsId>, PermissionsId>,
    /// Permissions of several parts, by the address of the value that each was last asked for with. The value is alive while
    /// its evaluation is.
    by_address: HashMap<usize, PermissionsId>,
    /// Permissions that have a part.
    wholes: BTreeMap<PermissionsId, BTreeSet<PermissionsId>>,
    /// By the conditions that they have.
    by_match: HashMap<UriMatch, BTreeSet<PermissionsId>>,
    next: u32,
}

pub(crate) struct Evaluation {
    of: Evaluated,
    pub(crate) admitted: IdentitySet,
    /// Whether they admit all callers, also those that join later.
    pub(crate) admits_everybody: bool,
    /// Number of destinations with an inbound of these permissions, and of permissions that have them as a part.
    users: usize,
}

enum Evaluated {
    One(Arc<Permissions>),
    AnyOf { parts: BTreeSet<PermissionsId>, source: Arc<AnyOf> },
}

impl Evaluations {
    pub(crate) fn get(&self, id: PermissionsId) -> &Evaluation {
        &self.known[&id]
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn acquire(&mut self, permissions: &Arc<AnyOf>, mesh: &str, callers: &Identities) -> PermissionsId {
        if let [one] = permissions.permissions() {
            return self.acquire_one(one, mesh, callers);
        }
        if let Some(id) = self.by_address.get(&address(permissions)).copied() {
            return self.used_once_more(id);
        }
        let mut parts = BTreeSet::new();
        for part in permissions.permissions() {
            let id = self.acquire_one(part, mesh, callers);
            if !parts.insert(id) {
                self.release(id, mesh);
            }
        }
        if let Some(id) = self.by_parts.get(&parts).copied() {
            for part in parts {
                self.release(part, mesh);
            }
            self.set_source(id, permissions);
            return self.used_once_more(id);
        }
        let all = parts.iter().map(|part| self.get(*part));
        let (admitted, admits_everybody) = all.fold((IdentitySet::nobody(), false), |(admitted, everybody), part| {
            (admitted.union(&part.admitted), everybody || part.admits_everybody)
        });
        let of = Evaluated::AnyOf { parts: parts.clone(), source: permissions.clone() };
        let id = self.insert(Evaluation { of, admitted, admits_everybody, users: 1 });
        self.by_address.insert(address(permissions), id);
        for part in &parts {
            self.wholes.entry(*part).or_default().insert(id);
        }
        self.by_parts.insert(parts, id);
        id
    }

    fn acquire_one(&mut self, permissions: &Arc<Permissions>, mesh: &str, callers: &Identities) -> PermissionsId {
        let anonymous = permissions.anonymous();
        if let Some(id) = self.by_permissions.get(&anonymous).copied() {
            return self.used_once_more(id);
        }
        let conditions = permissions.uri_matches(mesh);
        let id = self.insert(Evaluation {
            of: Evaluated::One(permissions.clone()),
            admitted: permissions.admitted(mesh, callers),
            admits_everybody: conditions.is_empty() && permissions.possible(mesh, &[]).action != Action::Deny,
            users: 1,
        });
        for condition in conditions {
            self.by_match.entry(condition).or_default().insert(id);
        }
        self.by_permissions.insert(anonymous, id);
        id
    }

    fn insert(&mut self, evaluation: Evaluation) -> PermissionsId {
        let id = PermissionsId(self.next);
        self.next += 1;
        self.known.insert(id, evaluation);
        id
    }

    fn used_once_more(&mut self, id: PermissionsId) -> PermissionsId {
        if let Some(evaluation) = self.known.get_mut(&id) {
            evaluation.users += 1;
        }
        id
    }

    /// Replaces the value that permissions of several parts are found by.
    fn set_source(&mut self, id: PermissionsId, new: &Arc<AnyOf>) {
        if let Some(Evaluation { of: Evaluated::AnyOf { source, .. }, .. }) = self.known.get_mut(&id) {
            self.by_address.remove(&address(source));
            self.by_address.insert(address(new), id);
            *source = new.clone();
        }
    }

    pub(crate) fn release(&mut self, id: PermissionsId, mesh: &str) {
        let Some(evaluation) = self.known.get_mut(&id) else { return };
        evaluation.users -= 1;
        if evaluation.users > 0 {
            return;
        }
        match self.known.remove(&id).map(|evaluation| evaluation.of) {
            None => (),
            Some(Evaluated::One(permissions)) => {
                self.by_permissions.remove(&permissions.anonymous());
                for condition in permissions.uri_matches(mesh) {
                    take(&mut self.by_match, &condition, id);
                }
            }
            Some(Evaluated::AnyOf { parts, source }) => {
                self.by_address.remove(&address(&source));
                self.by_parts.remove(&parts);
                for part in parts {
                    if let Some(wholes) = self.wholes.get_mut(&part) {
                        wholes.remove(&id);
                        if wholes.is_empty() {
                            self.wholes.remove(&part);
                        }
                    }
                    self.release(part, mesh);
                }
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
            let Some(Evaluation { of: Evaluated::One(permissions), .. }) = self.known.get(&id) else { continue };
            let admitted = admits(permissions);
            if self.set_admitted(id, identity, admitted) {
                changed.push(id);
            }
        }
        let wholes: BTreeSet<PermissionsId> =
            changed.iter().filter_map(|part| self.wholes.get(part)).flatten().copied().collect();
        for id in wholes {
            let Some(Evaluation { of: Evaluated::AnyOf { parts, .. }, .. }) = self.known.get(&id) else { continue };
            let admitted = parts.iter().any(|part| self.get(*part).admitted.contains(identity));
            if self.set_admitted(id, identity, admitted) {
                changed.push(id);
            }
        }
        changed
    }

    /// Returns whether that is a change.
    fn set_admitted(&mut self, id: PermissionsId, identity: IdentityId, admitted: bool) -> bool {
        let Some(evaluation) = self.known.get_mut(&id) else { return false };
        let is_change = evaluation.admitted.contains(identity) != admitted;
        evaluation.admitted.set(identity, admitted);
        is_change
    }
}

fn address(permissions: &Arc<AnyOf>) -> usize {
    Arc::as_ptr(permissions).addr()
}

fn take(index: &mut HashMap<UriMatch, BTreeSet<PermissionsId>>, key: &UriMatch, id: PermissionsId) {
    let Some(having) = index.get_mut(key) else { return };
    having.remove(&id);
    if having.is_empty() {
        index.remove(key);
    }
}
