//! Clients, destinations, and the sets of identities between them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use kodiak_policies::mesh_traffic_permission::{Action, Permissions, UriMatch};

use crate::{
    Answer, Certificate, IdentityId, IdentitySet, No, Yes,
    identities::{Identities, Joined, matches_of},
    sets::{SetId, Sets},
};

/// Inbounds behind a destination, as far as admission is concerned.
#[derive(Debug, Clone, PartialEq)]
pub enum Admission {
    /// Everybody is admitted: permissions are not enforced there, or it is not known who is.
    Open,
    /// Distinct permissions of all inbounds behind it. With none, nobody is admitted.
    By(Vec<Arc<Permissions>>),
}

/// Identities that a change admits to a destination, or excludes from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Affected(pub IdentitySet);

/// Graph of one mesh. `C` identifies clients, and `D` destinations.
pub struct Graph<C, D> {
    mesh: Arc<str>,
    identities: Identities,
    clients: BTreeMap<C, Vec<IdentityId>>,
    users: BTreeMap<IdentityId, BTreeSet<C>>,
    /// Clients without a certificate.
    anonymous: BTreeSet<C>,
    permissions: HashMap<Arc<Permissions>, Evaluated<D>>,
    /// Permissions by the conditions that they have.
    by_match: HashMap<UriMatch, Vec<Arc<Permissions>>>,
    destinations: BTreeMap<D, (Admission, SetId)>,
    sets: Sets<D>,
}

/// Permissions of inbounds of one or more destinations.
struct Evaluated<D> {
    admitted: IdentitySet,
    users: BTreeSet<D>,
}

impl<C: Ord + Clone, D: Ord + Clone> Graph<C, D> {
    /// Certificates of tags contain the name of the mesh.
    pub fn new(mesh: Arc<str>) -> Self {
        Self {
            mesh,
            identities: Identities::default(),
            clients: BTreeMap::new(),
            users: BTreeMap::new(),
            anonymous: BTreeSet::new(),
            permissions: HashMap::new(),
            by_match: HashMap::new(),
            destinations: BTreeMap::new(),
            sets: Sets::default(),
        }
    }

    /// Certificates that a client presents or will present. Without one it may call the destinations that are for all
    /// callers.
    pub fn set_client(&mut self, client: &C, certificates: Option<&[Certificate]>) {
        let new: Option<Vec<IdentityId>> = certificates.map(|all| all.iter().map(|one| self.join(one)).collect());
        if new.as_ref().is_some_and(Vec::is_empty) {
            self.anonymous.insert(client.clone());
        } else {
            self.anonymous.remove(client);
        }
        let old = match &new {
            Some(ids) => self.clients.insert(client.clone(), ids.clone()),
            None => self.clients.remove(client),
        };
        for id in new.into_iter().flatten() {
            self.users.entry(id).or_default().insert(client.clone());
        }
        for id in old.into_iter().flatten() {
            let still = self.clients.get(client).is_some_and(|ids| ids.contains(&id));
            if let Some(users) = self.users.get_mut(&id).filter(|_| !still) {
                users.remove(client);
                if users.is_empty() {
                    self.users.remove(&id);
                }
            }
            self.leave(id);
        }
    }

    /// Returns the identities for which something changed.
    pub fn set_destination(&mut self, destination: &D, admission: Option<Admission>) -> Affected {
        if self.destinations.get(destination).map(|(known, _)| known) == admission.as_ref() {
            return Affected(IdentitySet::nobody());
        }
        if let Some(Admission::By(all)) = &admission {
            for permissions in all {
                self.acquire(permissions, destination);
            }
        }
        let before = self.destinations.remove(destination);
        let old = before.as_ref().map_or_else(IdentitySet::nobody, |(_, set)| self.sets.get(*set).clone());
        if let Some((_, set)) = &before {
            self.sets.remove(*set, destination);
        }
        let new = admission.as_ref().map_or_else(IdentitySet::nobody, |admission| self.admitted(admission));
        if let Some(admission) = &admission {
            let set = self.sets.insert(new.clone(), destination);
            self.destinations.insert(destination.clone(), (admission.clone(), set));
        }
        if let Some((Admission::By(all), _)) = before {
            for permissions in &all {
                let kept = matches!(&admission, Some(Admission::By(new)) if new.contains(permissions));
                if !kept {
                    self.release(permissions, destination);
                }
            }
        }
        Affected(old.symmetric_difference(&new))
    }

    /// Destinations that a client may call, in order. An unknown client may call all of them.
    pub fn destinations(&self, client: &C) -> BTreeSet<&D> {
        match self.clients.get(client) {
            None => self.destinations.keys().collect(),
            Some(ids) => self.sets_of(ids).into_iter().flat_map(|set| self.sets.destinations(set)).collect(),
        }
    }

    /// Clients with equal results may call the same destinations.
    pub fn sets_of_client(&self, client: &C) -> Option<Vec<SetId>> {
        self.clients.get(client).map(|ids| self.sets_of(ids))
    }

    /// Clients with one of the identities. What holds for all callers holds for clients without a certificate.
    pub fn clients(&self, Affected(affected): &Affected) -> BTreeSet<&C> {
        match affected {
            IdentitySet::Only(some) => some.iter().filter_map(|id| self.users.get(&IdentityId(id))).flatten().collect(),
            IdentitySet::AllBut(_) => {
                let affected = self.users.iter().filter(|(id, _)| affected.contains(**id));
                affected.flat_map(|(_, clients)| clients).chain(&self.anonymous).collect()
            }
        }
    }

    /// Whether the client may call the destination, and why.
    pub fn may(&self, client: &C, destination: &D) -> Answer {
        let (Some(ids), Some((admission, _))) = (self.clients.get(client), self.destinations.get(destination)) else {
            return Answer::Yes(Yes::Unknown);
        };
        let Admission::By(all) = admission else { return Answer::Yes(Yes::Open) };
        let mut denied = No::NotAllowed;
        for (permissions, id) in all.iter().flat_map(|permissions| ids.iter().map(move |id| (permissions, id))) {
            let verdict = permissions.possible(&self.mesh, self.identities.certificate(*id));
            let policy = verdict.policy.map(str::to_owned);
            match (verdict.action, policy) {
                (Action::Deny, Some(policy)) => denied = No::Denied { policy },
                (Action::Deny, None) => (),
                (_, policy) => return Answer::Yes(Yes::Allowed { policy: policy.unwrap_or_default() }),
            }
        }
        Answer::No(denied)
    }

    /// Size of the graph: identities, distinct permissions, distinct sets, and bytes of the sets.
    pub fn size(&self) -> (usize, usize, usize, usize) {
        (self.identities.len(), self.permissions.len(), self.sets.len(), self.sets.bytes())
    }

    fn sets_of(&self, ids: &[IdentityId]) -> Vec<SetId> {
        if ids.is_empty() {
            return self.sets.for_all_callers().collect();
        }
        let sets: BTreeSet<SetId> = ids.iter().flat_map(|id| self.sets.of(*id)).collect();
        sets.into_iter().collect()
    }

    fn admitted(&self, admission: &Admission) -> IdentitySet {
        let Admission::By(all) = admission else { return IdentitySet::everybody() };
        let sets = all.iter().map(|permissions| &self.permissions[permissions].admitted);
        sets.fold(IdentitySet::nobody(), |all, one| all.union(one))
    }

    fn acquire(&mut self, permissions: &Arc<Permissions>, destination: &D) {
        if let Some(known) = self.permissions.get_mut(permissions) {
            known.users.insert(destination.clone());
            return;
        }
        let admitted = permissions.admitted(&self.mesh, &self.identities);
        for condition in conditions(permissions, &self.mesh) {
            self.by_match.entry(condition).or_default().push(permissions.clone());
        }
        let evaluated = Evaluated { admitted, users: [destination.clone()].into() };
        self.permissions.insert(permissions.clone(), evaluated);
    }

    fn release(&mut self, permissions: &Arc<Permissions>, destination: &D) {
        let Some(known) = self.permissions.get_mut(permissions) else { return };
        known.users.remove(destination);
        if !known.users.is_empty() {
            return;
        }
        self.permissions.remove(permissions);
        for condition in conditions(permissions, &self.mesh) {
            let Some(having) = self.by_match.get_mut(&condition) else { continue };
            having.retain(|other| other != permissions);
            if having.is_empty() {
                self.by_match.remove(&condition);
            }
        }
    }

    fn join(&mut self, certificate: &Certificate) -> IdentityId {
        match self.identities.join(certificate) {
            Joined::Known(id) => id,
            Joined::New(id) => {
                self.evaluate(id, certificate, |permissions, mesh| {
                    permissions.possible(mesh, certificate).action != Action::Deny
                });
                id
            }
        }
    }

    fn leave(&mut self, id: IdentityId) {
        let certificate = self.identities.certificate(id).clone();
        if self.identities.leave(id) {
            // Its number is free, so sets contain it as they contain all identities that they do not name.
            self.evaluate(id, &certificate, |permissions, mesh| permissions.possible(mesh, &[]).action != Action::Deny);
        }
    }

    /// Brings the sets of all permissions that name the identity up to date, and those of their destinations.
    fn evaluate(&mut self, id: IdentityId, certificate: &[String], admits: impl Fn(&Permissions, &str) -> bool) {
        let conditions = certificate.iter().flat_map(|uri| matches_of(uri));
        let naming: Vec<_> =
            conditions.filter_map(|condition| self.by_match.get(&condition)).flatten().cloned().collect();
        let mut concerned = BTreeSet::new();
        for permissions in naming {
            let admitted = admits(&permissions, &self.mesh);
            let Some(evaluated) = self.permissions.get_mut(&permissions) else { continue };
            if evaluated.admitted.contains(id) != admitted {
                evaluated.admitted.set(id, admitted);
                concerned.extend(evaluated.users.iter().cloned());
            }
        }
        for destination in concerned {
            let Some((admission, set)) = self.destinations.get(&destination) else { continue };
            let (new, old) = (self.admitted(admission), *set);
            self.sets.remove(old, &destination);
            let new = self.sets.insert(new, &destination);
            if let Some((_, set)) = self.destinations.get_mut(&destination) {
                *set = new;
            }
        }
    }
}

fn conditions(permissions: &Permissions, mesh: &str) -> BTreeSet<UriMatch> {
    permissions.uri_matches(mesh).into_iter().collect()
}
