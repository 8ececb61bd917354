//! Clients of a mesh, grouped by service.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_rules::Proxy;
use kodiak_traffic::ClientId;
use roaring::RoaringBitmap;

use super::Names;

/// Dataplanes, by the service that they are instances of. A Dataplane is known by its index.
#[derive(Debug, Clone, Default)]
pub struct Clients {
    names: Vec<Arc<str>>,
    groups: BTreeMap<String, RoaringBitmap>,
}

/// Group of a Dataplane, as observed traffic names it; its own name without one.
pub fn group(proxy: &Proxy) -> String {
    ClientId::of(proxy).map_or_else(|| proxy.name.to_string(), |id| id.to_string())
}

impl Clients {
    pub fn of<'a>(proxies: impl IntoIterator<Item = &'a Arc<Proxy>>) -> Self {
        let mut clients = Self::default();
        for proxy in proxies {
            let index = u32::try_from(clients.names.len()).expect("fewer than 4 billion Dataplanes");
            clients.names.push(proxy.name.clone());
            clients.groups.entry(group(proxy)).or_default().insert(index);
        }
        clients
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub fn services(&self) -> impl Iterator<Item = &str> {
        self.groups.keys().map(String::as_str)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (u32, &Arc<str>)> {
        (0_u32..).zip(&self.names)
    }

    pub(super) fn name(&self, index: u32) -> &Arc<str> {
        &self.names[index as usize]
    }

    pub(super) fn of_group(&self, group: &str) -> Option<&RoaringBitmap> {
        self.groups.get(group)
    }

    /// Clients of a service or workload, or the Dataplane of this name.
    pub fn named(&self, name: &str) -> RoaringBitmap {
        let mut found = self.groups.get(name).cloned().unwrap_or_default();
        let is_of = |group: &str| {
            let id = ClientId::from(group);
            id.workload() == Some(name) || id.services().any(|service| service == name)
        };
        let of_several = self.groups.iter().filter(|(group, _)| is_of(group));
        of_several.for_each(|(_, some)| found |= some);
        found.extend(self.all().filter(|(_, known)| ***known == *name).map(|(index, _)| index));
        found
    }

    /// A service of which only some Dataplanes are meant is written as `service/dataplane` for each of them.
    pub(super) fn names(&self, some: &RoaringBitmap) -> Names {
        if some.len() == self.names.len() as u64 {
            return Names::All;
        }
        let all: RoaringBitmap = self.all().map(|(index, _)| index).collect();
        let missing = &all - some;
        if missing.len() < some.len() { Names::AllExcept(self.list(&missing)) } else { Names::Only(self.list(some)) }
    }

    fn list(&self, some: &RoaringBitmap) -> Vec<String> {
        let mut list = Vec::new();
        for (service, members) in &self.groups {
            let meant = members & some;
            if meant == *members {
                list.push(service.clone());
            } else {
                list.extend(meant.iter().map(|index| format!("{service}/{}", self.name(index))));
            }
        }
        list
    }
}
