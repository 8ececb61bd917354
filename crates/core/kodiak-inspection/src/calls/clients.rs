//! Clients of a mesh, grouped by service.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_rules::Proxy;
use kodiak_traffic::ClientId;
use roaring::RoaringBitmap;

use super::Names;

/// Dataplanes, by the service that they are instances of. A Dataplane is known by its index.
#[derive(Debug, Clone, Default)]
pub struct Clients {
    names: Vec<Arc<str>>,
    /// Group of each.
    group_of: Vec<Arc<str>>,
    groups: BTreeMap<Arc<str>, RoaringBitmap>,
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
            let group: Arc<str> = group(proxy).into();
            clients.names.push(proxy.name.clone());
            clients.groups.entry(group.clone()).or_default().insert(index);
            clients.group_of.push(group);
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
        self.groups.keys().map(|group| &**group)
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
        let all = self.names.len() as u64;
        if some.len() == all {
            return Names::All;
        }
        if some.len() * 2 <= all {
            return Names::Only(self.list(some));
        }
        let everybody: RoaringBitmap = self.all().map(|(index, _)| index).collect();
        Names::AllExcept(self.list(&(&everybody - some)))
    }

    /// The cost is proportional to the listed clients: there may be as many lists as destinations.
    fn list(&self, some: &RoaringBitmap) -> Vec<String> {
        let touched: BTreeSet<&Arc<str>> = some.iter().map(|index| &self.group_of[index as usize]).collect();
        let mut list = Vec::new();
        for service in touched {
            let members = &self.groups[service];
            let meant = members & some;
            if meant == *members {
                list.push(service.to_string());
            } else {
                list.extend(meant.iter().map(|index| format!("{service}/{}", self.name(index))));
            }
        }
        list
    }
}
