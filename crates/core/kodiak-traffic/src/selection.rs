//! Selections of proxies behind observed destinations.

use std::collections::{BTreeMap, HashMap};

use kodiak_model::{
    kinds::mesh_service::{DataplaneRef, Selector},
    labels, tags,
};
use kodiak_rules::Proxy;
use kodiak_world::{Destination, World, destination::Behind};

/// Labels that name an application, the best first. Others may select more than one service tomorrow.
const APPLICATION_LABELS: [&str; 4] = ["app", "app.kubernetes.io/name", "k8s-app", labels::WORKLOAD];

/// Selection of proxies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    Tags(BTreeMap<String, String>),
    Labels(BTreeMap<String, String>),
    Name(String),
}

/// Proxies of a mesh by service, and by the labels that name an application.
#[derive(Default)]
pub(crate) struct Proxies<'a> {
    by_service: HashMap<&'a str, Vec<&'a Proxy>>,
    labelled: HashMap<(&'static str, &'a str), usize>,
}

impl<'a> Proxies<'a> {
    pub(crate) fn of(world: &'a World, mesh: &str) -> Self {
        let mut proxies = Self::default();
        for proxy in world.proxies(mesh) {
            let mut services: Vec<&str> =
                proxy.dataplane.inbounds().iter().filter_map(|inbound| inbound.service()).collect();
            services.sort_unstable();
            services.dedup();
            for service in services {
                proxies.by_service.entry(service).or_default().push(proxy);
            }
            for label in APPLICATION_LABELS {
                if let Some(value) = proxy.labels.get(label) {
                    *proxies.labelled.entry((label, value)).or_default() += 1;
                }
            }
        }
        proxies
    }

    pub(crate) fn have_service(&self, service: &str) -> bool {
        self.by_service.contains_key(service)
    }

    /// Proxies of a service: by labels if they select exactly these, and all inbounds of them are of the service.
    pub(crate) fn of_service(&self, service: &str) -> Selection {
        let members = self.by_service.get(service).map_or(&[][..], Vec::as_slice);
        let is_alone =
            |proxy: &&Proxy| proxy.dataplane.inbounds().iter().all(|inbound| inbound.service() == Some(service));
        let label = APPLICATION_LABELS.into_iter().find_map(|label| {
            let value = members.first()?.labels.get(label)?;
            let all = members.iter().all(|proxy| proxy.labels.get(label) == Some(value));
            let only = self.labelled.get(&(label, value.as_str())) == Some(&members.len());
            (all && only).then(|| (label.to_owned(), value.clone()))
        });
        match label.filter(|_| members.iter().all(is_alone)) {
            Some(label) => Selection::Labels([label].into()),
            None => Selection::Tags([(tags::SERVICE.to_owned(), service.to_owned())].into()),
        }
    }

    /// Proxies of a MeshService, as its selector matches them. None for an empty selector.
    pub(crate) fn of_destination(&self, destination: &Destination) -> Vec<Selection> {
        let Behind::Service(service) = &destination.behind else { return Vec::new() };
        let Selector { dataplane_tags, dataplane_ref, dataplane_labels } = &service.selector;
        let selection = match (dataplane_tags, dataplane_ref) {
            (Some(tags), _) => match tags.get(tags::SERVICE).filter(|_| tags.len() == 1) {
                Some(service) => Some(self.of_service(service)),
                None => (!tags.is_empty()).then(|| Selection::Tags(tags.clone())),
            },
            (None, Some(DataplaneRef { name })) => Some(Selection::Name(name.clone())),
            (None, None) => {
                let labels = dataplane_labels.as_ref().and_then(|selector| selector.match_labels.clone());
                labels.filter(|labels| !labels.is_empty()).map(Selection::Labels)
            }
        };
        selection.into_iter().collect()
    }
}
