//! Destinations by the names of their clusters.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use kodiak_model::{Kri, tags};
use kodiak_world::World;
use kodiak_xds::names::{self, Naming};

/// All names that the clusters of a mesh's destinations can have, from the code that makes the names.
#[derive(Debug, Default)]
pub struct ClusterNames {
    /// `None` for a name that several destinations can have.
    destinations: HashMap<String, Option<Arc<str>>>,
    services: BTreeSet<Arc<str>>,
}

impl ClusterNames {
    pub fn of(world: &World, mesh: &str) -> Self {
        let mut names = Self::default();
        let tag_sets =
            world.proxies(mesh).flat_map(|proxy| proxy.dataplane.inbounds().iter().map(|inbound| &inbound.tags));
        names.services =
            tag_sets.filter_map(|tags| tags.get(tags::SERVICE)).map(|service| Arc::from(&**service)).collect();
        for service in names.services.clone() {
            let tags = [(tags::SERVICE.to_owned(), service.to_string())].into();
            names.add(names::service_cluster(&tags), &service);
        }
        for destination in world.destinations(mesh) {
            let id: Arc<str> = destination.kri.to_string().into();
            for port in &destination.ports {
                let kri = Kri { section: port.section.clone(), ..destination.kri.clone() };
                for naming in [Naming::Kodiak, Naming::Kuma, Naming::Kri] {
                    names.add(names::port_cluster(naming, &kri, port.port), &id);
                }
            }
        }
        names
    }

    fn add(&mut self, cluster: String, destination: &Arc<str>) {
        let known = self.destinations.entry(cluster).or_insert_with(|| Some(destination.clone()));
        if known.as_ref() != Some(destination) {
            *known = None;
        }
    }

    /// The `kuma.io/service` or the KRI that the cluster is for. `None` for clusters that are no destination.
    pub fn destination(&self, cluster: &str) -> Option<&Arc<str>> {
        if let Some(known) = self.destinations.get(cluster) {
            return known.as_ref();
        }
        self.services.get(names::service_of_subset(cluster)?)
    }
}
