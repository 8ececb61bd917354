//! Clients, destinations, and the sets of identities between them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_policies::mesh_traffic_permission::{Action, Permissions};

use crate::{
    Answer, AnyOf, Certificate, IdentityId, IdentitySet, No, Yes,
    identities::{Identities, Joined},
    permissions::{Evaluations, PermissionsId},
    sets::{Origin, SetId, Sets},
};

/// Inbounds behind a destination, as far as admission is concerned.
#[derive(Debug, Clone, PartialEq)]
pub enum Admission {
    /// Everybody is admitted: permissions are not enforced there, or it is not known who is.
    Open,
    /// Permissions of all inbounds behind it. With none, nobody is admitted.
    By(Vec<Arc<AnyOf>>),
}

/// Effect of a changed destination on clients.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// Identities that may call it now and could not before, or the other way round.
    pub affected: IdentitySet,
    /// Identities that are in other sets now ([`Graph::sets_of_client`]).
    pub regrouped: IdentitySet,
}

/// Graph of one mesh. `C` identifies clients, and `D` destinations.
pub struct Graph<C, D> {
    mesh: Arc<str>,
    identities: Identities,
    clients: BTreeMap<C, Vec<IdentityId>>,
    users: BTreeMap<IdentityId, BTreeSet<C>>,
    /// Clients without a certificate.
    anonymous: BTreeSet<C>,
    evaluations: Evaluations,
    destinations: BTreeMap<D, (Inbounds, SetId)>,
    sets: Sets<D>,
}

/// An [`Admission`] whose permissions are evaluated. Equal permissions may be of different policies, so it has its own.
#[derive(Debug, Clone)]
enum Inbounds {
    Open,
    By(BTreeMap<PermissionsId, Arc<AnyOf>>),
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
            evaluations: Evaluations::default(),
            destinations: BTreeMap::new(),
            sets: Sets::default(),
        }
    }

    /// Certificates that a client presents or will present. Without one it may call the destinations that are for all
    /// callers. No other client is affected.
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

    pub fn set_destination(&mut self, destination: &D, admission: Option<&Admission>) -> Effect {
        let inbounds = admission.map(|admission| self.acquire(admission));
        let before = self.destinations.remove(destination);
        let effect = self.move_destination(destination, before.as_ref().map(|(_, set)| *set), inbounds.as_ref());
        if let Some((Inbounds::By(all), _)) = before {
            for id in all.into_keys() {
                self.evaluations.release(id, &self.mesh);
            }
        }
        effect
    }

    /// Moves it from its set to that of the inbounds. A set with no other destination is changed in place, so that its
    /// members stay in it.
    fn move_destination(&mut self, destination: &D, old: Option<SetId>, inbounds: Option<&Inbounds>) -> Effect {
        let was = old.map_or_else(IdentitySet::nobody, |set| self.sets.members(set).clone());
        let nobody = || Effect { affected: IdentitySet::nobody(), regrouped: IdentitySet::nobody() };
        let Some(inbounds) = inbounds else {
            let gone = old.and_then(|set| self.sets.remove(set, destination));
            return Effect { affected: was, regrouped: gone.unwrap_or_else(IdentitySet::nobody) };
        };
        let (origin, members) = self.origin(inbounds);
        let affected = was.symmetric_difference(&members);
        let known = self.sets.find(&origin);
        let mut keep = |set: SetId| drop(self.destinations.insert(destination.clone(), (inbounds.clone(), set)));
        match (old, known) {
            (Some(old), Some(known)) if old == known => {
                keep(old);
                nobody()
            }
            (Some(old), None) if self.sets.is_only(old, destination) => {
                keep(old);
                self.sets.replace(old, origin, members);
                Effect { regrouped: affected.clone(), affected }
            }
            (old, known) => {
                let gone = old.and_then(|set| self.sets.remove(set, destination));
                let mut regrouped = gone.unwrap_or_else(IdentitySet::nobody);
                if known.is_none() {
                    regrouped = regrouped.union(&members);
                }
                let new = known.unwrap_or_else(|| self.sets.create(origin, members));
                self.sets.add(new, destination);
                keep(new);
                Effect { affected, regrouped }
            }
        }
    }

    /// Destinations that a client may call, in order. An unknown client may call all of them.
    pub fn destinations(&self, client: &C) -> BTreeSet<&D> {
        match self.clients.get(client) {
            None => self.destinations.keys().collect(),
            Some(ids) => self.sets_of(ids).into_iter().flat_map(|set| self.destinations_of(set)).collect(),
        }
    }

    /// Clients with equal results may call the same destinations: those of these sets. `None` for an unknown client.
    pub fn sets_of_client(&self, client: &C) -> Option<Vec<SetId>> {
        self.clients.get(client).map(|ids| self.sets_of(ids))
    }

    pub fn destinations_of(&self, set: SetId) -> impl Iterator<Item = &D> {
        self.sets.destinations(set).into_iter().flatten()
    }

    pub fn set_of(&self, destination: &D) -> Option<SetId> {
        self.destinations.get(destination).map(|(_, set)| *set)
    }

    /// As it was set.
    pub fn admission(&self, destination: &D) -> Option<Admission> {
        let (inbounds, _) = self.destinations.get(destination)?;
        Some(match inbounds {
            Inbounds::Open => Admission::Open,
            Inbounds::By(all) => Admission::By(all.values().cloned().collect()),
        })
    }

    /// Clients with one of the identities. What holds for all callers holds for clients without a certificate.
    pub fn clients(&self, identities: &IdentitySet) -> BTreeSet<&C> {
        match identities {
            IdentitySet::Only(some) => some.iter().filter_map(|id| self.users.get(&IdentityId(id))).flatten().collect(),
            IdentitySet::AllBut(_) => {
                let affected = self.users.iter().filter(|(id, _)| identities.contains(**id));
                affected.flat_map(|(_, clients)| clients).chain(&self.anonymous).collect()
            }
        }
    }

    /// Whether the client may call the destination, and why. Of several policies, the first by name: inbounds have no order.
    pub fn may(&self, client: &C, destination: &D) -> Answer {
        let (Some(ids), Some((inbounds, _))) = (self.clients.get(client), self.destinations.get(destination)) else {
            return Answer::Yes(Yes::Unknown);
        };
        let Inbounds::By(all) = inbounds else { return Answer::Yes(Yes::Open) };
        let (mut allowing, mut denying) = (BTreeSet::new(), BTreeSet::new());
        // Nobody knows the URIs of a client without a certificate, and it has none to show.
        let anonymous = [Certificate::default()];
        let certificates = ids.iter().map(|id| self.identities.certificate(*id));
        let certificates: Vec<&Certificate> =
            if ids.is_empty() { anonymous.iter().collect() } else { certificates.collect() };
        let parts = all.values().flat_map(|any| any.permissions());
        for (permissions, certificate) in parts.flat_map(|part| certificates.iter().map(move |one| (part, one))) {
            let verdict = permissions.possible(&self.mesh, certificate);
            if verdict.action == Action::Deny {
                denying.extend(verdict.policy);
            } else {
                allowing.insert(verdict.policy.unwrap_or_default());
            }
        }
        match (allowing.first(), denying.first()) {
            (Some(policy), _) => Answer::Yes(Yes::Allowed { policy: (*policy).to_owned() }),
            (None, Some(policy)) => Answer::No(No::Denied { policy: (*policy).to_owned() }),
            (None, None) => Answer::No(No::NotAllowed),
        }
    }

    /// Size of the graph: identities, distinct permissions, distinct sets, and bytes of the sets.
    pub fn size(&self) -> (usize, usize, usize, usize) {
        (self.identities.len(), self.evaluations.len(), self.sets.len(), self.sets.bytes())
    }

    fn sets_of(&self, ids: &[IdentityId]) -> Vec<SetId> {
        if ids.is_empty() {
            return self.sets.for_all_callers().collect();
        }
        let sets: BTreeSet<SetId> = ids.iter().flat_map(|id| self.sets.of(*id)).collect();
        sets.into_iter().collect()
    }

    fn acquire(&mut self, admission: &Admission) -> Inbounds {
        let Admission::By(all) = admission else { return Inbounds::Open };
        let mut ids = BTreeMap::new();
        for permissions in all {
            let id = self.evaluations.acquire(permissions, &self.mesh, &self.identities);
            if ids.insert(id, permissions.clone()).is_some() {
                self.evaluations.release(id, &self.mesh);
            }
        }
        Inbounds::By(ids)
    }

    /// The set of callers that one of the inbounds may admit.
    fn origin(&self, inbounds: &Inbounds) -> (Origin, IdentitySet) {
        match inbounds {
            Inbounds::By(all) if !all.keys().any(|id| self.evaluations.get(*id).admits_everybody) => {
                let members = all.keys().map(|id| &self.evaluations.get(*id).admitted);
                (
                    Origin::By(all.keys().copied().collect()),
                    members.fold(IdentitySet::nobody(), |all, one| all.union(one)),
                )
            }
            Inbounds::Open | Inbounds::By(_) => (Origin::Everybody, IdentitySet::everybody()),
        }
    }

    fn join(&mut self, certificate: &Certificate) -> IdentityId {
        match self.identities.join(certificate) {
            Joined::Known(id) => id,
            Joined::New(id) => {
                self.evaluate(id, certificate, certificate);
                id
            }
        }
    }

    fn leave(&mut self, id: IdentityId) {
        let certificate = self.identities.certificate(id).clone();
        if self.identities.leave(id) {
            // Its number is free, so sets contain it as they contain all identities that they do not name.
            self.evaluate(id, &certificate, &[]);
        }
    }

    /// Updates all permissions that name one of the URIs, and the sets that follow from them, with the verdict on
    /// `presented`.
    fn evaluate(&mut self, identity: IdentityId, uris: &[String], presented: &[String]) {
        let mesh = &self.mesh;
        let admits = |permissions: &Permissions| permissions.possible(mesh, presented).action != Action::Deny;
        let changed = self.evaluations.evaluate(identity, uris, admits);
        let sets: BTreeSet<SetId> = changed.into_iter().flat_map(|id| self.sets.following(id)).collect();
        for set in sets {
            let Origin::By(all) = self.sets.origin(set) else { continue };
            let is_member = all.iter().any(|id| self.evaluations.get(*id).admitted.contains(identity));
            self.sets.set_member(set, identity, is_member);
        }
    }
}
