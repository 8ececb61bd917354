//! Routes that policies target, by display name.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::policy::Conf;
use serde_json::Value;

use crate::Policy;

/// MeshHTTPRoutes. Zones and namespaces are ignored: a reference selects the first of that name.
#[derive(Debug, Clone, Default)]
pub struct Routes(BTreeMap<Arc<str>, BTreeMap<Arc<str>, Arc<Policy>>>);

impl Routes {
    pub fn insert(&mut self, route: Arc<Policy>) {
        let called = self.0.entry(route.meta().display_name().into()).or_default();
        called.insert(Arc::clone(&route.name), route);
    }

    pub fn remove(&mut self, route: &Policy) {
        let display_name = route.meta().display_name();
        if let Some(called) = self.0.get_mut(display_name) {
            called.remove(&route.name);
            if called.is_empty() {
                self.0.remove(display_name);
            }
        }
    }

    pub fn find(&self, mesh: &str, display_name: &str) -> Option<&Arc<Policy>> {
        self.0.get(display_name)?.values().find(|route| *route.mesh == *mesh)
    }
}

impl FromIterator<Arc<Policy>> for Routes {
    fn from_iter<I: IntoIterator<Item = Arc<Policy>>>(routes: I) -> Self {
        let mut all = Self::default();
        routes.into_iter().for_each(|route| all.insert(route));
        all
    }
}

/// The matches of each rule of a route.
pub(crate) fn matches(conf: &Conf) -> impl Iterator<Item = &Value> {
    let rules = conf.json().get("rules").and_then(Value::as_array);
    rules.into_iter().flatten().filter_map(|rule| rule.get("matches"))
}
