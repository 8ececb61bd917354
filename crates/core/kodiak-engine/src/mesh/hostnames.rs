//! Hostnames of all destinations, for proxies that lose some of them, kept up to date.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_xds::hostnames::HostnameIndex;

use super::Mesh;
use crate::{
    Identities,
    engine::UpdateContext,
    hostnames::Hostnames,
    permitted::Permitted,
    plan::Sources,
    target::{Target, Touched},
};

impl Mesh {
    /// Returns the proxies to update, because the domains of the names changed.
    pub(super) fn update_hostnames(
        &mut self,
        targets: &BTreeSet<Target>,
        view_changed: bool,
        context: &UpdateContext<'_>,
    ) -> BTreeSet<Arc<str>> {
        if self.permitted.is_none() || context.settings.explained.is_none() {
            self.hostnames = None;
            return BTreeSet::new();
        }
        let known = self.hostnames.take();
        let touched = if known.is_none() || view_changed { Touched::All } else { Touched::Some(targets) };
        let mut hostnames = known.unwrap_or_default();
        let changed = hostnames.update(touched, self.sources(context.identities));
        self.hostnames = Some(hostnames);
        let classes = self.classes.ids().filter_map(|id| self.classes.get(id));
        let trimmed = classes.filter(|(key, _)| changed && key.permitted.is_some());
        trimmed.flat_map(|(_, class)| class.members.iter().cloned()).collect()
    }

    /// `None` if no proxy loses destinations, or none explains it.
    pub(crate) fn hostnames(&self) -> Option<&HostnameIndex> {
        self.hostnames.as_ref().map(Hostnames::index)
    }

    pub(super) fn sources<'a>(&'a self, identities: &'a dyn Identities) -> Sources<'a> {
        Sources {
            view: &self.view,
            services: &self.services,
            vips: &self.vips,
            objects: &self.objects,
            dataplanes: &self.dataplanes,
            identities,
            graph: self.permitted.as_ref().map(Permitted::graph),
        }
    }
}
