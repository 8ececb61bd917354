//! DNS records for proxies that lose destinations, kept up to date.

use std::{collections::BTreeSet, sync::Arc};

use super::Mesh;
use crate::{
    Identities,
    engine::UpdateContext,
    permitted::Permitted,
    plan::Sources,
    target::{Target, Touched},
};

impl Mesh {
    /// Returns the proxies to update, because the table changed.
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
