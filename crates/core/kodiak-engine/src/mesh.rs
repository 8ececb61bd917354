//! One mesh: its resources, and the state that is computed from them for all its proxies.

mod hostnames;
mod otlp_backends;
mod patches;
mod permissions;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_identity::{ServerAccess, TlsPolicies};
use kodiak_model::{ProxyKey, TargetKind, TargetRef, kinds::mesh::Mesh as MeshSpec};
use kodiak_policies::{mesh_proxy_patch, otlp_backends::OtlpBackends};
use kodiak_reachability::Mode;
use kodiak_rollout::Rollout;
use kodiak_rules::{Policy, PolicyIndex, Proxy, Resources, Shadow, policy_index::PolicyKey};
use kodiak_services::vips::Vips;
use kodiak_world::Destination;
use kodiak_xds::node::NodeMetadata;

use self::patches::PatchLists;
use crate::{
    class::Class,
    class_key::{Certificate, ClassKey, Reach},
    classes::{ClassId, Classes},
    dirty_set::DirtySet,
    engine::{UpdateContext, Updated},
    hostnames::Hostnames,
    objects::{ObjectKey, Objects},
    permitted::Permitted,
    plan::Sources,
    proxy::{EngineProxy, LastGood, Stale, Subject, Trimmed},
    proxy_facts,
    rules::{self, Lists, Rules},
    services::Services,
    target::{Target, Targets},
    view::View,
};

/// The kind of policy that other policies can target.
const MESH_HTTP_ROUTE: &str = "MeshHTTPRoute";

pub(crate) struct Mesh {
    name: Arc<str>,
    spec: Option<Arc<MeshSpec>>,
    /// Its label.
    reachability: Option<Mode>,
    rollout: Option<Rollout>,
    /// The record of the rollout could not be read yet.
    lacks_rollout: bool,
    vips: Arc<Vips>,
    view: View,
    dataplanes: BTreeMap<Arc<str>, Arc<Proxy>>,
    /// With endpoints instead of references to MeshOpenTelemetryBackends.
    policies: BTreeMap<PolicyKey, Arc<Policy>>,
    /// Policies that reference MeshOpenTelemetryBackends, as they are stored.
    referring: BTreeMap<PolicyKey, Arc<Policy>>,
    otlp_backends: OtlpBackends,
    policy_index: PolicyIndex,
    /// MeshHTTPRoutes, for the policies that target them.
    resources: Arc<Resources>,
    services: Services,
    objects: Objects,
    classes: Classes,
    /// `None` while all proxies may call everything, or get it anyway.
    permitted: Option<Permitted>,
    /// Dataplanes with a label that lets them lose destinations.
    trimmed_by_label: BTreeSet<Arc<str>>,
    /// For proxies that lose destinations, if they explain it.
    hostnames: Option<Hostnames>,
    patches: PatchLists,
    pub(crate) proxies: BTreeMap<Arc<str>, EngineProxy>,
    /// Of Dataplanes whose proxies had faults when they disconnected.
    last_good: BTreeMap<Arc<str>, LastGood>,
    dirty: DirtySet,
}

/// Changes that an update of classes starts from.
#[derive(Clone, Copy)]
struct ClassChanges<'a> {
    /// Every class is rebuilt.
    view_changed: bool,
    targets: &'a BTreeSet<Target>,
    policies: &'a BTreeMap<PolicyKey, Targets>,
    /// Classes with a member that one of `policies` selects or selected.
    selected: &'a BTreeSet<ClassId>,
}

impl Mesh {
    pub(crate) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            spec: None,
            reachability: None,
            rollout: None,
            lacks_rollout: false,
            vips: Arc::default(),
            view: View::default(),
            dataplanes: BTreeMap::new(),
            policies: BTreeMap::new(),
            referring: BTreeMap::new(),
            otlp_backends: OtlpBackends::default(),
            policy_index: PolicyIndex::default(),
            resources: Arc::default(),
            services: Services::default(),
            objects: Objects::default(),
            classes: Classes::default(),
            permitted: None,
            trimmed_by_label: BTreeSet::new(),
            hostnames: None,
            patches: PatchLists::default(),
            proxies: BTreeMap::new(),
            last_good: BTreeMap::new(),
            dirty: DirtySet { settings: true, ..DirtySet::default() },
        }
    }

    /// Whether neither a resource nor a connected proxy is left. The rollout and virtual addresses are documents of their
    /// own, which may come before the resource of the mesh; the other fields are derived.
    pub(crate) fn is_empty(&self) -> bool {
        let Self {
            name: _,
            spec,
            reachability: _,
            rollout,
            lacks_rollout,
            vips,
            view: _,
            dataplanes,
            policies,
            referring: _,
            otlp_backends,
            policy_index: _,
            resources: _,
            services: _,
            objects,
            classes: _,
            permitted: _,
            trimmed_by_label: _,
            hostnames: _,
            patches: _,
            proxies,
            last_good: _,
            dirty: _,
        } = self;
        let has_documents = !otlp_backends.is_empty()
            || spec.is_some()
            || rollout.is_some()
            || *lacks_rollout
            || vips.iter().next().is_some();
        !has_documents && dataplanes.is_empty() && policies.is_empty() && objects.is_empty() && proxies.is_empty()
    }

    pub(crate) fn set_spec(&mut self, spec: Option<Arc<MeshSpec>>, reachability: Option<Mode>) {
        if spec.is_none() {
            // A Mesh of this name that comes in the same batch is another one.
            self.view = View::default();
        }
        self.spec = spec;
        self.reachability = reachability;
        self.dirty.settings = true;
    }

    pub(crate) fn set_rollout(&mut self, rollout: Option<Rollout>) {
        self.rollout = rollout;
        self.lacks_rollout = false;
        self.dirty.settings = true;
    }

    /// The last step that could be read stays. Without one, nothing is published: the target may be steps away.
    pub(crate) fn rollout_is_unreadable(&mut self) {
        self.lacks_rollout = self.rollout.is_none();
        self.dirty.settings = true;
    }

    pub(crate) fn settings_changed(&mut self) {
        self.dirty.settings = true;
    }

    pub(crate) fn secret_changed(&mut self) {
        self.dirty.settings = true;
        self.dirty.targets.extend(self.objects.external().cloned().map(Target::Object));
        self.dirty.proxies.extend(self.proxies.keys().cloned());
    }

    pub(crate) fn tick(&mut self) {
        self.dirty.tick = true;
    }

    pub(crate) fn set_vips(&mut self, vips: Arc<Vips>) {
        let services = self.services.names().filter(|name| self.vips.get(name) != vips.get(name));
        self.dirty.targets.extend(services.cloned().map(Target::Service));
        self.vips = vips;
    }

    pub(crate) fn set_dataplane(&mut self, name: &Arc<str>, dataplane: Option<&Arc<Proxy>>) {
        if dataplane.is_none() {
            self.last_good.remove(name);
        }
        let old = match dataplane {
            Some(new) => self.dataplanes.insert(name.clone(), new.clone()),
            None => self.dataplanes.remove(name),
        };
        let touched = self.services.replace(name, old.as_deref(), dataplane.map(Arc::as_ref));
        self.dirty.targets.extend(touched.into_iter().map(Target::Service));
        if old.as_ref() != dataplane {
            let access = |proxy: Option<&Arc<Proxy>>| Some(ServerAccess::of(&self.view.rollout, proxy?));
            if access(old.as_ref()) != access(dataplane) {
                let inbounds = dataplane.into_iter().flat_map(|proxy| proxy.dataplane.inbounds());
                let services = inbounds.filter_map(|inbound| inbound.service());
                self.dirty.targets.extend(services.map(|service| Target::Service(service.into())));
            }
            if dataplane.is_some_and(|proxy| Mode::in_labels(&proxy.labels) == Some(Mode::On)) {
                self.trimmed_by_label.insert(name.clone());
            } else {
                self.trimmed_by_label.remove(name);
            }
            self.admission_changed(old.as_ref());
            self.dirty.targets.extend(self.objects.set_proxy(name, dataplane).into_iter().map(Target::Object));
            self.policy_index.set_proxy(name, dataplane.cloned());
            self.admission_changed(dataplane);
            if old.as_ref().zip(dataplane).is_none_or(|(old, new)| is_matched_otherwise(old, new)) {
                self.dirty.touched_servers.insert(name.clone());
            } else {
                self.dirty.servers.insert(name.clone());
            }
            self.dirty.proxies.insert(name.clone());
        }
    }

    pub(crate) fn set_object(&mut self, key: &ObjectKey, destination: Option<&Arc<Destination>>) {
        let touched: BTreeSet<Target> = self.objects.set(key, destination).into_iter().map(Target::Object).collect();
        self.dirty.admissions.extend(touched.iter().cloned());
        self.dirty.targets.extend(touched);
    }

    /// The policy has no references to MeshOpenTelemetryBackends that resolve.
    fn set_resolved_policy(&mut self, key: &PolicyKey, policy: Option<&Arc<Policy>>) {
        let old = match policy {
            Some(new) => self.policies.insert(key.clone(), new.clone()),
            None => self.policies.remove(key),
        };
        if old.as_ref() == policy {
            return;
        }
        let either = |has: fn(&Policy) -> bool| old.iter().chain(policy).any(|policy| has(policy));
        let whole_proxy = either(|policy| policy.body.default.is_some());
        let inbound = whole_proxy || either(|policy| !policy.body.from.is_empty() || !policy.body.rules.is_empty());
        let all_traffic =
            whole_proxy && kodiak_policies::find(key.0).is_some_and(kodiak_policies::Policy::applies_to_all_traffic);
        let outbound = all_traffic || either(|policy| !policy.body.to.is_empty());
        if key.0 == mesh_proxy_patch::KIND.name {
            self.patches.clear();
        }
        let selected = self.policy_index.set_policy(key, policy.cloned());
        self.permission_changed(key.0, &selected);
        let selected = selected.into_iter().filter(|name| self.proxies.contains_key(name));
        if inbound {
            self.dirty.proxies.extend(selected);
        } else if outbound {
            self.dirty.reclassified.extend(selected);
        }
        if outbound {
            let targets = self.dirty.policies.entry(key.clone()).or_default();
            for policy in old.iter().chain(policy) {
                targets.extend(Targets::of(policy, &self.objects));
            }
        }
        self.dirty.routes |= either(|policy| policy.kind.name == MESH_HTTP_ROUTE);
    }

    pub(crate) fn connect(&mut self, name: &Arc<str>, metadata: Arc<NodeMetadata>) {
        self.disconnect(name);
        let last_good = self.last_good.remove(name).unwrap_or_default();
        self.proxies.insert(name.clone(), EngineProxy::new(metadata, last_good));
        self.dirty.proxies.insert(name.clone());
        self.dirty.servers.insert(name.clone());
    }

    pub(crate) fn disconnect(&mut self, name: &Arc<str>) {
        if let Some(mut proxy) = self.proxies.remove(name) {
            self.leave_class(name, &mut proxy);
            if let Some(last_good) = proxy.last_good().filter(|_| self.dataplanes.contains_key(name)) {
                self.last_good.insert(name.clone(), last_good);
            }
        }
        if let Some(permitted) = &mut self.permitted {
            permitted.set_client(name, false);
        }
        self.dirty.servers.insert(name.clone());
    }

    /// Brings everything up to date. Returns the names of the proxies that changed.
    pub(crate) fn update(&mut self, context: &mut UpdateContext<'_>) -> BTreeSet<Arc<str>> {
        let mut dirty = std::mem::take(&mut self.dirty);
        let mut view_changed = false;
        // CAs in files are read again: nothing tells when they change.
        if dirty.settings || dirty.tick && self.view.lacks_trust() {
            let spec = self.spec.as_deref();
            let mut view = View::of(&self.name, spec, self.rollout.as_ref(), self.reachability, &self.view, context);
            view.lacks_rollout = self.lacks_rollout;
            view_changed = view != self.view;
            self.objects.set_rollout(&view.rollout);
            self.view = view;
        }
        if dirty.routes {
            self.update_routes(&mut dirty.policies);
        }
        self.update_permitted(&mut dirty, view_changed, context);
        let mut own = dirty.proxies;
        if dirty.tick {
            own.extend(
                self.proxies.iter().filter(|(_, proxy)| proxy.is_due(context.now)).map(|(name, _)| name.clone()),
            );
        }
        let mut stale = own.clone();
        if view_changed {
            stale.extend(self.proxies.keys().cloned());
        }
        let selected = dirty.reclassified.iter().chain(&own).filter_map(|name| self.proxies.get(name)?.class);
        let selected: BTreeSet<ClassId> = selected.collect();
        let changes =
            ClassChanges { view_changed, targets: &dirty.targets, policies: &dirty.policies, selected: &selected };
        stale.extend(self.update_classes(changes, context));
        stale.extend(self.update_hostnames(&dirty.targets, view_changed, context));
        stale.extend(dirty.reclassified.iter().cloned());
        let staleness = |name: &Arc<str>| {
            if view_changed || own.contains(name) {
                Stale::OwnResources
            } else if dirty.reclassified.contains(name) {
                Stale::Membership
            } else {
                Stale::ClassResources
            }
        };
        let mut updated = BTreeSet::new();
        for name in stale {
            if context.settings.cancellation.check().is_err() {
                break;
            }
            if self.update_proxy(&name, staleness(&name), &dirty.policies, context) {
                updated.insert(name);
            }
        }
        updated
    }

    /// Collects MeshHTTPRoutes, and marks the policies that target one as changed.
    fn update_routes(&mut self, changed: &mut BTreeMap<PolicyKey, Targets>) {
        let mut resources = Resources::default();
        for ((kind, _), policy) in &self.policies {
            if *kind == MESH_HTTP_ROUTE {
                resources.insert_route(policy.clone());
            }
        }
        self.resources = Arc::new(resources);
        let is_route = |target: &TargetRef| target.known_kind() == Some(TargetKind::MeshHTTPRoute);
        let dependants = self.policies.iter().filter(|(_, policy)| policy.body.target.as_ref().is_some_and(is_route));
        changed.extend(dependants.map(|(key, _)| (key.clone(), Targets::All)));
    }

    /// Returns the members of the classes whose resources changed.
    fn update_classes(&mut self, changes: ClassChanges<'_>, context: &mut UpdateContext<'_>) -> BTreeSet<Arc<str>> {
        let ClassChanges { view_changed, targets, policies, selected } = changes;
        let mut stale = BTreeSet::new();
        let mut visited: BTreeMap<ClassId, BTreeSet<Target>> = if view_changed {
            self.classes.ids().map(|id| (id, BTreeSet::new())).collect()
        } else {
            self.classes.affected_by(targets, |target| self.permitted.as_ref()?.graph().set_of(target))
        };
        if !policies.is_empty() {
            for id in selected {
                visited.entry(*id).or_default();
            }
        }
        let from = Sources {
            view: &self.view,
            services: &self.services,
            vips: &self.vips,
            objects: &self.objects,
            dataplanes: &self.dataplanes,
            identities: context.identities,
            graph: self.permitted.as_ref().map(Permitted::graph),
        };
        for (id, targets) in visited {
            if context.settings.cancellation.check().is_err() {
                break;
            }
            self.classes.change(id, |key, class| {
                let applies = |policy: &PolicyKey| selected.contains(&id) && contains(&key.policies, policy);
                let applicable: Vec<_> = policies.iter().filter(|(policy, _)| applies(policy)).collect();
                let mut touched = if view_changed { Targets::All } else { Targets::Some(targets) };
                for (_, targets) in &applicable {
                    touched.extend((*targets).clone());
                }
                // The meaning of plain names depends on the mode of the mesh.
                if view_changed || !applicable.is_empty() {
                    class.rules =
                        Arc::new(rules_of(&key.policies, &self.resources, self.view.resolution(), &self.policies));
                }
                if !touched.is_empty() && class.update(key, from, touched.touched(), context.cache) {
                    stale.extend(class.members.iter().cloned());
                }
            });
        }
        stale
    }

    fn update_proxy(
        &mut self,
        name: &Arc<str>,
        stale: Stale,
        policies: &BTreeMap<PolicyKey, Targets>,
        context: &mut UpdateContext<'_>,
    ) -> bool {
        // Without a Mesh or a Dataplane there is no configuration; the proxy keeps its last one.
        let (Some(_), Some(dataplane)) = (&self.spec, self.dataplanes.get(name).cloned()) else { return false };
        let Some(mut proxy) = self.proxies.remove(name) else { return false };
        let id = match proxy.class {
            Some(id) if stale == Stale::ClassResources => id,
            before => {
                let key = self.class_key(name, &proxy, &dataplane, context.settings.shadow);
                if key.reach.direct_access().is_some() {
                    self.services.watch_instances();
                }
                let known = self.classes.find(&key);
                known.unwrap_or_else(|| {
                    let class = self.build_class(&key, before, policies, context);
                    self.classes.insert(Arc::new(key), class)
                })
            }
        };
        if proxy.class != Some(id) {
            self.classes.join(id, name);
            self.leave_class(name, &mut proxy);
            proxy.class = Some(id);
        }
        let (key, class) = self.classes.get(id).expect("a proxy is a member of its class");
        let is_explained = key.permitted.is_some() && !key.reach.is_bounded();
        let hostnames = self.hostnames.as_ref().filter(|_| is_explained);
        let explained = context.settings.explained.as_ref();
        let trimmed = hostnames.zip(explained).map(|(all, ranges)| Trimmed { records: all.table(), ranges });
        let subject = Subject {
            certificate: &key.certificate,
            facts: &key.facts,
            patches: key.patches.as_ref(),
            key: ProxyKey { mesh: self.name.clone(), name: name.clone() },
            view: &self.view,
            dataplane: &dataplane,
            policy_index: &self.policy_index,
            class,
            trimmed,
            permissions: self.permitted.as_ref().and_then(|permitted| permitted.token(name)),
        };
        let changed = proxy.update(&subject, stale, context);
        self.proxies.insert(name.clone(), proxy);
        changed
    }

    fn class_key(&mut self, name: &Arc<str>, proxy: &EngineProxy, member: &Proxy, shadow: Shadow) -> ClassKey {
        let on_outbounds = |hook: &&&'static dyn kodiak_policies::Policy| {
            hook.applies_to_all_traffic() || hook.kind().policy.is_some_and(|facts| facts.to)
        };
        let kinds = kodiak_policies::in_force().iter().filter(on_outbounds).map(|hook| hook.kind());
        let matched: Vec<_> =
            kinds.map(|kind| (kind.name, self.policy_index.matched(kind.name, name, shadow))).collect();
        let all: Vec<&Policy> =
            matched.iter().flat_map(|(_, matched)| matched.proxy.iter().map(|each| &**each)).collect();
        let lists = matched.iter().filter_map(|(kind, matched)| {
            let outbound =
                matched.proxy.iter().filter(|policy| !policy.body.to.is_empty() || policy.body.default.is_some());
            let names: Arc<[Arc<str>]> = outbound.map(|policy| policy.name.clone()).collect();
            (!names.is_empty()).then_some((*kind, names))
        });
        let reach = Reach::of(&proxy.metadata, member, self.view.mode);
        let permitted = self.permitted.as_ref().filter(|_| reach.is_redirected());
        let permitted = permitted.and_then(|permitted| permitted.graph().sets_of_client(name));
        let items = all.iter().flat_map(|policy| policy.body.to.iter().map(|item| (policy.kind.name, &item.conf)));
        let whole = all.iter().filter_map(|policy| Some((policy.kind.name, policy.body.default.as_ref()?)));
        let needed = proxy_facts::needed(items.chain(whole));
        let facts = proxy_facts::of(&needed, &self.name, name, member, &proxy.metadata, &self.view.zone);
        ClassKey {
            reach,
            permitted: permitted.map(Arc::from),
            policies: lists.collect(),
            caller_tags: rules::caller_tags(&all, member),
            facts: Arc::new(facts),
            system_ca: proxy.metadata.system_ca_path.as_deref().map(Arc::from),
            certificate: Certificate::of(&self.view.rollout.issuers, member, &proxy.metadata),
            tls_parameters: TlsPolicies { index: &self.policy_index, shadow }.outbounds(name),
            patches: self.patches.of(&self.policy_index.matched(mesh_proxy_patch::KIND.name, name, shadow).proxy),
        }
    }

    /// Builds a new class. If it differs in policies and permissions alone from the proxy's class `before`, it starts as
    /// a copy.
    fn build_class(
        &self,
        key: &ClassKey,
        before: Option<ClassId>,
        changed: &BTreeMap<PolicyKey, Targets>,
        context: &mut UpdateContext<'_>,
    ) -> Class {
        let from = self.sources(context.identities);
        let similar = before.and_then(|before| self.classes.get(before)).filter(|(old, _)| {
            let ClassKey {
                reach,
                permitted: _,
                policies: _,
                caller_tags,
                facts,
                system_ca,
                certificate,
                tls_parameters,
                patches,
            } = key;
            old.reach == *reach
                && old.patches == *patches
                && old.caller_tags == *caller_tags
                && old.facts == *facts
                && old.system_ca == *system_ca
                && old.certificate == *certificate
                && old.tls_parameters == *tls_parameters
        });
        let mut class = similar.map_or_else(Class::default, |(_, class)| class.without_members());
        class.rules = Arc::new(rules_of(&key.policies, &self.resources, self.view.resolution(), &self.policies));
        let touched = similar.map_or(Targets::All, |(old, _)| {
            let mut touched = self.changed_targets(&old.policies, &key.policies, changed);
            touched.extend(self.differently_permitted(old.permitted.as_deref(), key.permitted.as_deref()));
            touched
        });
        class.update(key, from, touched.touched(), context.cache);
        class
    }

    /// Targets of the policies that changed, or that only one of both lists has.
    fn changed_targets(&self, old: &Lists, new: &Lists, changed: &BTreeMap<PolicyKey, Targets>) -> Targets {
        let keys = |lists: &Lists| -> BTreeSet<PolicyKey> {
            lists.iter().flat_map(|(kind, names)| names.iter().map(|name| (*kind, name.clone()))).collect()
        };
        let (old, new) = (keys(old), keys(new));
        let mut targets = Targets::default();
        for key in old.symmetric_difference(&new).chain(changed.keys()) {
            match (changed.get(key), self.policies.get(key)) {
                (Some(changed), _) => targets.extend(changed.clone()),
                (None, Some(policy)) => targets.extend(Targets::of(policy, &self.objects)),
                (None, None) => targets.extend(Targets::All),
            }
        }
        targets
    }

    /// The current state of a proxy.
    pub(crate) fn updated(&self, name: &Arc<str>) -> Option<Updated> {
        let proxy = self.proxies.get(name)?;
        Some(Updated {
            key: ProxyKey { mesh: self.name.clone(), name: name.clone() },
            snapshot: proxy.snapshot.clone(),
            faults: proxy.faults.iter().map(ToString::to_string).collect(),
            rollout: proxy.rollout.clone(),
            permissions: proxy.permissions,
            issued: proxy.issued(&self.view.rollout),
        })
    }

    fn leave_class(&mut self, name: &Arc<str>, proxy: &mut EngineProxy) {
        if let Some(id) = proxy.class.take() {
            self.classes.leave(id, name);
        }
    }
}

/// Whether other policies may select a Dataplane now.
fn is_matched_otherwise(old: &Proxy, new: &Proxy) -> bool {
    let tags = |proxy: &Proxy| -> Vec<_> {
        proxy.dataplane.inbounds().iter().map(|inbound| (inbound.port, inbound.tags.clone())).collect()
    };
    old.labels != new.labels || tags(old) != tags(new)
}

fn contains(lists: &Lists, (kind, name): &PolicyKey) -> bool {
    lists.iter().any(|(of, names)| of == kind && names.contains(name))
}

fn rules_of(
    lists: &Lists,
    resources: &Arc<Resources>,
    resolution: kodiak_rules::outbound::NameResolution,
    policies: &BTreeMap<PolicyKey, Arc<Policy>>,
) -> Rules {
    Rules::of(lists, resources, resolution, |kind, name| policies.get(&(kind, name.clone())))
}
