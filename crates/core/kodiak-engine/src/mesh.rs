//! One mesh: what is known of it, and what follows for all its proxies.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{
    ProxyKey,
    kinds::{dataplane::Dataplane, mesh::Mesh as MeshSpec},
};
use kodiak_policies::mesh_traffic_permission::MeshTrafficPermission;
use kodiak_views::{rollout::Rollout, vips::Vips};
use kodiak_xds::node::NodeMetadata;

use crate::{
    Labelled,
    class::{Class, ClassKey, Sources, Touched},
    engine::{Context, Issued, Updated},
    permissions,
    proxy::{Proxy, Subject},
    services::Services,
};

pub(crate) type Dataplanes = BTreeMap<Arc<str>, Arc<Labelled<Dataplane>>>;
pub(crate) type Permissions = BTreeMap<Arc<str>, Arc<Labelled<MeshTrafficPermission>>>;

pub(crate) struct Mesh {
    name: Arc<str>,
    spec: Option<Arc<MeshSpec>>,
    rollout: Option<Rollout>,
    vips: Arc<Vips>,
    view: View,
    pub(crate) dataplanes: Dataplanes,
    pub(crate) permissions: Permissions,
    services: Services,
    classes: BTreeMap<Arc<ClassKey>, Class>,
    pub(crate) proxies: BTreeMap<Arc<str>, Proxy>,
    dirt: Dirt,
}

/// What follows from the mesh itself, for all its proxies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// Whether the mesh itself is there; its proxies may be known earlier.
    exists: bool,
    pub(crate) name: Arc<str>,
    pub(crate) rollout: Rollout,
    /// What proxies acknowledge of it.
    pub(crate) token: Arc<str>,
    /// The certificates that are believed, or why they cannot be told.
    pub(crate) roots: Option<Result<Arc<str>, String>>,
    /// Whether unknown destinations may be called.
    pub(crate) passthrough: bool,
    /// The own zone, when calls should stay in it.
    pub(crate) nearest_zone: Option<Arc<str>>,
}

/// What has to be looked at again.
#[derive(Default)]
struct Dirt {
    settings: bool,
    services: BTreeSet<Arc<str>>,
    proxies: BTreeSet<Arc<str>>,
    tick: bool,
}

impl Mesh {
    pub(crate) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            spec: None,
            rollout: None,
            vips: Arc::default(),
            view: View::default(),
            dataplanes: Dataplanes::new(),
            permissions: Permissions::new(),
            services: Services::default(),
            classes: BTreeMap::new(),
            proxies: BTreeMap::new(),
            dirt: Dirt { settings: true, ..Dirt::default() },
        }
    }

    /// Whether nothing is left of it.
    pub(crate) fn is_empty(&self) -> bool {
        self.spec.is_none() && self.dataplanes.is_empty() && self.permissions.is_empty() && self.proxies.is_empty()
    }

    /// The services, if they are others than before.
    pub(crate) fn take_new_services(&mut self) -> Option<BTreeSet<Arc<str>>> {
        self.services.take_new_names()
    }

    pub(crate) fn set_spec(&mut self, spec: Option<Arc<MeshSpec>>) {
        self.spec = spec;
        self.dirt.settings = true;
    }

    pub(crate) fn set_rollout(&mut self, rollout: Option<Rollout>) {
        self.rollout = rollout;
        self.dirt.settings = true;
    }

    pub(crate) fn authority_changed(&mut self) {
        self.dirt.settings = true;
        self.dirt.proxies.extend(self.proxies.keys().cloned());
    }

    pub(crate) fn tick(&mut self) {
        self.dirt.tick = true;
    }

    pub(crate) fn set_vips(&mut self, vips: Arc<Vips>) {
        let services = self.services.names().filter(|name| self.vips.get(name) != vips.get(name));
        self.dirt.services.extend(services.cloned());
        self.vips = vips;
    }

    pub(crate) fn set_dataplane(&mut self, name: &Arc<str>, dataplane: Option<&Arc<Labelled<Dataplane>>>) {
        let old = match dataplane {
            Some(new) => self.dataplanes.insert(name.clone(), new.clone()),
            None => self.dataplanes.remove(name),
        };
        let touched = self.services.replace(name, old.as_ref().map(|old| &old.spec), dataplane.map(|new| &new.spec));
        self.dirt.services.extend(touched);
        if old.as_ref() != dataplane {
            self.dirt.proxies.insert(name.clone());
        }
    }

    pub(crate) fn set_permission(&mut self, name: &Arc<str>, policy: Option<&Arc<Labelled<MeshTrafficPermission>>>) {
        let old = match policy {
            Some(new) => self.permissions.insert(name.clone(), new.clone()),
            None => self.permissions.remove(name),
        };
        if old.as_ref() == policy {
            return;
        }
        for proxy in self.proxies.keys() {
            let Some(dataplane) = self.dataplanes.get(proxy) else { continue };
            let selects = |policy: Option<&Arc<Labelled<MeshTrafficPermission>>>| {
                policy.is_some_and(|policy| permissions::selects(&self.name, (name, policy), (proxy, dataplane)))
            };
            if selects(old.as_ref()) || selects(policy) {
                self.dirt.proxies.insert(proxy.clone());
            }
        }
    }

    pub(crate) fn connect(&mut self, name: &Arc<str>, metadata: Arc<NodeMetadata>) {
        self.disconnect(name);
        self.proxies.insert(name.clone(), Proxy::new(metadata));
        self.dirt.proxies.insert(name.clone());
    }

    pub(crate) fn disconnect(&mut self, name: &Arc<str>) {
        if let Some(mut proxy) = self.proxies.remove(name) {
            self.leave_class(name, &mut proxy);
        }
        self.classes.retain(|_, class| !class.members.is_empty());
    }

    /// Brings everything up to date. The names of proxies for which something is different.
    pub(crate) fn update(&mut self, context: &mut Context<'_>) -> Vec<Arc<str>> {
        let dirt = std::mem::take(&mut self.dirt);
        let mut all = false;
        if dirt.settings {
            let view = self.derive(context);
            all = view != self.view;
            self.view = view;
        }
        let mut own = dirt.proxies;
        if dirt.tick {
            own.extend(
                self.proxies.iter().filter(|(_, proxy)| proxy.is_due(context.now)).map(|(name, _)| name.clone()),
            );
        }
        let mut stale = own.clone();
        if all {
            stale.extend(self.proxies.keys().cloned());
        }
        if all || !dirt.services.is_empty() {
            let from = Sources { view: &self.view, services: &self.services, vips: &self.vips };
            let touched = if all { Touched::All } else { Touched::Services(&dirt.services) };
            for (key, class) in &mut self.classes {
                if class.update(key, from, touched, context.cache) {
                    stale.extend(class.members.iter().cloned());
                }
            }
        }
        let changed: Vec<_> =
            stale.into_iter().filter(|name| self.update_proxy(name, all || own.contains(name), context)).collect();
        self.classes.retain(|_, class| !class.members.is_empty());
        changed
    }

    fn update_proxy(&mut self, name: &Arc<str>, own: bool, context: &mut Context<'_>) -> bool {
        // Without a mesh or a Dataplane there is nothing to say; what was said before stays.
        let (Some(_), Some(dataplane)) = (&self.spec, self.dataplanes.get(name).cloned()) else { return false };
        let Some(mut proxy) = self.proxies.remove(name) else { return false };
        let key = if own || proxy.class.is_none() {
            Arc::new(ClassKey::of(&proxy.metadata, &dataplane.spec))
        } else {
            proxy.class.clone().expect("it was just seen")
        };
        if proxy.class.as_ref() != Some(&key) {
            self.leave_class(name, &mut proxy);
            let from = Sources { view: &self.view, services: &self.services, vips: &self.vips };
            let class = self.classes.entry(key.clone()).or_insert_with(|| {
                let mut class = Class::default();
                class.update(&key, from, Touched::All, context.cache);
                class
            });
            class.members.insert(name.clone());
            proxy.class = Some(key.clone());
        }
        let class = self.classes.get(&key).expect("a proxy is a member of its class");
        let subject = Subject {
            key: ProxyKey { mesh: self.name.clone(), name: name.clone() },
            view: &self.view,
            dataplane: &dataplane,
            permissions: &self.permissions,
            class,
        };
        let changed = proxy.update(&subject, own, context);
        self.proxies.insert(name.clone(), proxy);
        changed
    }

    /// How a proxy stands now.
    pub(crate) fn updated(&self, name: &Arc<str>) -> Option<Updated> {
        let proxy = self.proxies.get(name)?;
        Some(Updated {
            key: ProxyKey { mesh: self.name.clone(), name: name.clone() },
            snapshot: proxy.snapshot.clone(),
            faults: proxy.faults.iter().map(ToString::to_string).collect(),
            rollout: proxy.rollout.clone(),
            issued: proxy.leaf.clone().map(|(backend, leaf)| Issued {
                backend,
                leaf,
                trust: self.view.rollout.trust.clone(),
            }),
        })
    }

    fn leave_class(&mut self, name: &Arc<str>, proxy: &mut Proxy) {
        if let Some(class) = proxy.class.take().and_then(|key| self.classes.get_mut(&key)) {
            class.members.remove(name);
        }
    }

    fn derive(&self, context: &Context<'_>) -> View {
        let Some(spec) = &self.spec else { return View { name: self.name.clone(), ..View::default() } };
        // Until somebody has said how far the mesh is, it is where it wants to be.
        let rollout = self.rollout.clone().unwrap_or_else(|| Rollout::target(spec));
        let roots = (!rollout.trust.is_empty()).then(|| {
            let roots = rollout.trust.iter().map(|backend| context.identities.roots(&self.name, backend));
            let roots: Vec<Arc<str>> = roots.collect::<Result<_, String>>()?;
            Ok(roots.iter().map(|pem| pem.trim_end()).flat_map(|pem| [pem, "\n"]).collect::<String>().into())
        });
        let near = spec.routing.as_ref().is_some_and(|routing| routing.locality_aware_load_balancing);
        View {
            exists: true,
            name: self.name.clone(),
            token: rollout.token().into(),
            rollout,
            roots,
            passthrough: spec.passthrough(),
            nearest_zone: near.then(|| context.settings.zone.clone()),
        }
    }
}
