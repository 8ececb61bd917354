//! Index of the MeshServices of each MeshMultiZoneService, updated by changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{
    Condition, Kri, LabelSelector, Labels,
    kinds::{
        mesh_multi_zone_service::{MatchedMeshService, MeshMultiZoneServiceStatus},
        mesh_service,
    },
};

const MATCHED: &str = "MeshServicesMatched";

type Names = BTreeSet<Arc<str>>;

#[derive(Default)]
pub(super) struct Groups {
    services: BTreeMap<Arc<str>, Arc<Labels>>,
    by_name: BTreeMap<Arc<str>, Group>,
    /// MeshMultiZoneServices by the first label of their selector. Those without labels select no MeshService.
    by_label: BTreeMap<(String, String), Names>,
}

struct Group {
    selector: LabelSelector,
    members: Names,
}

impl Groups {
    /// Returns the MeshMultiZoneServices that select or selected it.
    pub(super) fn set_service(&mut self, name: &Arc<str>, labels: Option<&Arc<Labels>>) -> Names {
        if self.services.get(name) == labels {
            return Names::new();
        }
        let before = self.services.remove(name);
        let both = [before.as_ref(), labels].into_iter().flatten();
        let pairs: BTreeSet<(&String, &String)> = both.flat_map(|labels| labels.iter()).collect();
        let asking = pairs.into_iter().filter_map(|(key, value)| self.by_label.get(&(key.clone(), value.clone())));
        let mut concerned = Names::new();
        for group_name in asking.flatten() {
            let group = self.by_name.get_mut(group_name).expect("who is found by a label is known by its name");
            let was = group.members.remove(name);
            let is = labels.is_some_and(|labels| group.selector.matches(labels));
            if is {
                group.members.insert(name.clone());
            }
            if was || is {
                concerned.insert(group_name.clone());
            }
        }
        if let Some(labels) = labels {
            self.services.insert(name.clone(), labels.clone());
        }
        concerned
    }

    pub(super) fn set_group(&mut self, name: &Arc<str>, selector: Option<&LabelSelector>) {
        if self.by_name.get(name).map(|group| &group.selector) == selector {
            return;
        }
        if let Some(first) = self.by_name.remove(name).as_ref().and_then(|group| first(&group.selector))
            && let Some(names) = self.by_label.get_mut(&first)
        {
            names.remove(name);
            if names.is_empty() {
                self.by_label.remove(&first);
            }
        }
        let Some((selector, first)) = selector.and_then(|selector| Some((selector, first(selector)?))) else { return };
        let members = self.services.iter().filter(|(_, labels)| selector.matches(labels));
        let members = members.map(|(name, _)| name.clone()).collect();
        self.by_name.insert(name.clone(), Group { selector: selector.clone(), members });
        self.by_label.entry(first).or_default().insert(name.clone());
    }

    /// Sets the matched MeshServices in the status.
    pub(super) fn report(&self, mesh: &str, name: &str, status: &mut MeshMultiZoneServiceStatus) {
        let members = self.by_name.get(name).into_iter().flat_map(|group| &group.members);
        let matched = |name: &Arc<str>| {
            let labels = &self.services[name];
            let Kri { name, namespace, zone, mesh, .. } =
                Kri::of(&mesh_service::KIND, mesh, name, labels).expect("MeshServices have a short name");
            MatchedMeshService { name, namespace, zone, mesh }
        };
        let mut matched: Vec<MatchedMeshService> = members.map(matched).collect();
        matched.sort();
        let condition = condition(matched.len());
        status.mesh_services = matched;
        match status.conditions.iter_mut().find(|known| known.condition_type == MATCHED) {
            Some(known) => *known = condition,
            None => status.conditions.push(condition),
        }
    }
}

fn condition(count: usize) -> Condition {
    let (status, reason, message) = match count {
        0 => ("False", "NoMatchesFound", "The selector matches no MeshService of this zone.".to_owned()),
        1 => ("True", "MatchesFound", "The selector matches 1 MeshService.".to_owned()),
        count => ("True", "MatchesFound", format!("The selector matches {count} MeshServices.")),
    };
    let (status, reason) = (status.to_owned(), reason.to_owned());
    Condition { condition_type: MATCHED.to_owned(), status, reason, message }
}

fn first(selector: &LabelSelector) -> Option<(String, String)> {
    let (key, value) = selector.match_labels.as_ref()?.first_key_value()?;
    Some((key.clone(), value.clone()))
}
