//! A small world: what is stored, a keeper that is told of it, and writes that are done as a store does them.

mod addresses;
mod calm;
mod counts;
mod names;
mod problems;
mod property;
mod scale;
mod tags;
mod vouched;
mod workloads;

use kodiak_model::{
    Labels,
    kinds::{
        dataplane::Admission,
        hostname_generator::HostnameGenerator,
        mesh::MeshServicesMode,
        mesh_service::{MeshService, MeshServiceStatus, State},
    },
};
use kodiak_rollout::Rollout;
use serde_json::{Value, json};

use super::*;

const MESH: &str = "demo";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn name(text: &str) -> Arc<str> {
    text.into()
}

fn service(text: &str) -> ServiceKey {
    ServiceKey { kind: BackendKind::MeshService, mesh: name(MESH), name: name(text) }
}

fn labels(written: &Value) -> Arc<Labels> {
    Arc::new(serde_json::from_value(written.clone()).unwrap())
}

/// One inbound for each service and port.
fn serves(inbounds: &[(&str, u32)]) -> Value {
    let inbound = |(service, port): &(&str, u32)| json!({ "port": port, "tags": { "kuma.io/service": service } });
    json!(inbounds.iter().map(inbound).collect::<Vec<_>>())
}

const ONLINE: Seen = Seen { online: true, left: None, certified: false };

fn left(seconds: i64) -> Seen {
    Seen { online: false, left: Some(at(seconds)), certified: false }
}

type Telling<'a> = Box<dyn Fn(&mut ServiceReconciler) + 'a>;

/// All that is stored.
#[derive(Clone, Default)]
struct World {
    meshes: BTreeMap<Arc<str>, MeshFacts>,
    dataplanes: BTreeMap<Arc<str>, DataplaneFacts>,
    seen: BTreeMap<Arc<str>, Seen>,
    services: BTreeMap<ServiceKey, Stored>,
    generators: BTreeMap<Arc<str>, Generator>,
    positions: Option<Positions>,
    vips: BTreeMap<Arc<str>, StoredVips>,
    workloads: BTreeMap<WorkloadKey, StoredWorkload>,
}

/// The world and who keeps it.
struct Kept {
    world: World,
    keeper: ServiceReconciler,
    now: i64,
}

impl World {
    /// Somebody who is told of everything, the last first when `backwards`.
    fn keeper(&self, now: i64, backwards: bool) -> ServiceReconciler {
        self.keeper_with(ServiceSettings::default(), now, backwards)
    }

    fn keeper_with(&self, settings: ServiceSettings, now: i64, backwards: bool) -> ServiceReconciler {
        let mut keeper = ServiceReconciler::new(settings, at(now));
        let mesh = name(MESH);
        let mut tell: Vec<Telling<'_>> = Vec::new();
        for (name, facts) in &self.meshes {
            tell.push(Box::new(|keeper| keeper.set_mesh(name, Some(facts.clone()))));
        }
        for (name, facts) in &self.dataplanes {
            tell.push(Box::new(|keeper| keeper.set_dataplane(&mesh, name, Some(facts.clone()))));
        }
        for (name, seen) in &self.seen {
            tell.push(Box::new(|keeper| keeper.set_seen(&mesh, name, Some(*seen))));
        }
        for (key, stored) in &self.services {
            tell.push(Box::new(|keeper| keeper.set_service(key, Some(stored.clone()))));
        }
        for (name, generator) in &self.generators {
            tell.push(Box::new(|keeper| keeper.set_generator(name, Some(generator.clone()))));
        }
        if let Some(positions) = &self.positions {
            tell.push(Box::new(|keeper| keeper.set_positions(positions.clone())));
        }
        for (mesh, stored) in &self.vips {
            tell.push(Box::new(|keeper| keeper.set_vips(mesh, Some(stored.clone()))));
        }
        for (key, stored) in &self.workloads {
            tell.push(Box::new(|keeper| keeper.set_workload(key, Some(stored.clone()))));
        }
        if backwards {
            tell.reverse();
        }
        for tell in tell {
            tell(&mut keeper);
        }
        keeper
    }

    /// As a store does it.
    fn write(&mut self, Wanted { key, write }: &Wanted, now: i64) {
        let found = self.services.get_mut(key);
        match write {
            Write::Put { labels, spec, version } => {
                assert_eq!(found.as_ref().map(|found| found.version), *version, "{key:?}");
                let Some(found) = found else {
                    let status = MeshServiceStatus::default();
                    let content = Content::Service { spec: spec.clone(), status };
                    let labels = Arc::new(labels.clone());
                    let stored = Stored { labels, created: at(now), version: 1, status_version: None, content };
                    self.services.insert(key.clone(), stored);
                    return;
                };
                let Content::Service { spec: stored, .. } = &mut found.content else { panic!("no MeshService") };
                assert!(stored != spec || *found.labels != *labels, "written as it was: {key:?}");
                stored.clone_from(spec);
                found.labels = Arc::new(labels.clone());
                found.version += 1;
            }
            Write::Status { status, version } => {
                let found = found.expect("only what is there has a status");
                assert_eq!(found.status_version, *version, "{key:?}");
                match (&mut found.content, status) {
                    (Content::Service { status, .. }, Status::Service(new)) => status.clone_from(new),
                    (Content::External { status, .. }, Status::External(new)) => status.clone_from(new),
                    (Content::MultiZone { status, .. }, Status::MultiZone(new)) => status.clone_from(new),
                    _ => panic!("the status of another kind"),
                }
                found.status_version = Some(version.unwrap_or_default() + 1);
            }
            Write::Delete { version } => {
                assert_eq!(found.map(|found| found.version), Some(*version), "{key:?}");
                self.services.remove(key);
            }
        }
    }

    fn spec(&self, of: &str) -> &MeshService {
        match &self.services[&service(of)].content {
            Content::Service { spec, .. } => spec,
            _ => panic!("no MeshService"),
        }
    }

    fn status(&self, of: &str) -> &MeshServiceStatus {
        match &self.services[&service(of)].content {
            Content::Service { status, .. } => status,
            _ => panic!("no MeshService"),
        }
    }

    /// Connected, healthy and in total.
    fn counts(&self, of: &str) -> [u32; 3] {
        let proxies = &self.status(of).dataplane_proxies;
        [proxies.connected, proxies.healthy, proxies.total]
    }

    fn is_available(&self, of: &str) -> bool {
        self.spec(of).state.is(State::Available)
    }
}

impl Kept {
    /// A mesh with MeshServices, long after the start.
    fn new() -> Self {
        let mut kept = Self {
            world: World::default(),
            keeper: ServiceReconciler::new(ServiceSettings::default(), at(-1000)),
            now: 0,
        };
        kept.mesh(MeshServicesMode::Everywhere, false);
        kept
    }

    fn mesh(&mut self, mode: MeshServicesMode, mtls: bool) {
        self.mesh_at(mode, mtls, Rollout::default());
    }

    fn mesh_at(&mut self, mode: MeshServicesMode, mtls: bool, rollout: Rollout) {
        let facts = MeshFacts { mode, mtls, rollout: Arc::new(rollout) };
        self.world.meshes.insert(name(MESH), facts.clone());
        self.keeper.set_mesh(&name(MESH), Some(facts));
    }

    fn dataplane(&mut self, text: &str, inbounds: &Value) {
        self.dataplane_with(text, inbounds, &json!({}));
    }

    fn dataplane_with(&mut self, text: &str, inbounds: &Value, with: &Value) {
        self.brought(text, inbounds, with, None);
    }

    /// By a proxy whose token binds this, or by a user.
    fn brought(&mut self, text: &str, inbounds: &Value, with: &Value, admission: Option<Admission>) {
        let admission = admission.map(Arc::new);
        let dataplane = json!({ "networking": { "address": "10.0.0.1", "inbound": inbounds } });
        let dataplane = Arc::new(serde_json::from_value(dataplane).unwrap());
        let facts = DataplaneFacts { labels: labels(with), created: at(0), dataplane, admission };
        self.world.dataplanes.insert(name(text), facts.clone());
        self.keeper.set_dataplane(&name(MESH), &name(text), Some(facts));
    }

    /// With its insight, as the store does it.
    fn gone(&mut self, text: &str) {
        self.world.seen.remove(text);
        self.keeper.set_seen(&name(MESH), &name(text), None);
        self.world.dataplanes.remove(text);
        self.keeper.set_dataplane(&name(MESH), &name(text), None);
    }

    fn seen(&mut self, text: &str, seen: Seen) {
        self.world.seen.insert(name(text), seen);
        self.keeper.set_seen(&name(MESH), &name(text), Some(seen));
    }

    /// Serves the service at port 80, and is connected.
    fn serving(&mut self, text: &str, service: &str) {
        self.dataplane(text, &serves(&[(service, 80)]));
        self.seen(text, ONLINE);
    }

    /// Somebody writes it; its status stays.
    fn put(&mut self, key: &ServiceKey, with: &Value, content: Content) {
        let labels = labels(with);
        let old = self.world.services.remove(key);
        let stored = match old {
            Some(Stored { created, version, status_version, content: old, .. }) => {
                let content = match (content, old) {
                    (Content::Service { spec, .. }, Content::Service { status, .. }) => {
                        Content::Service { spec, status }
                    }
                    (Content::MultiZone { spec, .. }, Content::MultiZone { status, .. }) => {
                        Content::MultiZone { spec, status }
                    }
                    (Content::External { fault, .. }, Content::External { status, .. }) => {
                        Content::External { fault, status }
                    }
                    (_, old) => old,
                };
                Stored { labels, created, version: version + 1, status_version, content }
            }
            None => Stored { labels, created: at(self.now), version: 1, status_version: None, content },
        };
        self.world.services.insert(key.clone(), stored.clone());
        self.keeper.set_service(key, Some(stored));
    }

    fn put_service(&mut self, text: &str, with: &Value, spec: &Value) {
        let spec = serde_json::from_value(spec.clone()).unwrap();
        self.put(&service(text), with, Content::Service { spec, status: MeshServiceStatus::default() });
    }

    fn delete(&mut self, key: &ServiceKey) {
        self.world.services.remove(key);
        self.keeper.set_service(key, None);
    }

    fn generator(&mut self, text: &str, spec: &Value) {
        let spec: HostnameGenerator = serde_json::from_value(spec.clone()).unwrap();
        let generator = Generator { labels: Arc::default(), created: at(0), spec };
        self.world.generators.insert(name(text), generator.clone());
        self.keeper.set_generator(&name(text), Some(generator));
    }

    /// Writes until nothing is left to write, and says what was written.
    fn settle(&mut self) -> Vec<Wanted> {
        let mut all = Vec::new();
        loop {
            let due = self.keeper.due(at(self.now));
            if let Some(positions) = due.positions.clone() {
                self.world.positions = Some(positions.clone());
                self.keeper.set_positions(positions);
            }
            if !due.has_writes() {
                return all;
            }
            for WantedVips { mesh, vips, version } in due.vips {
                let before = self.world.vips.get(&mesh);
                assert_eq!(before.map(|before| before.version), version, "{mesh}");
                assert_ne!(before.map(|before| &before.vips), Some(&vips), "written as it was: {mesh}");
                let stored = StoredVips { vips, version: version.unwrap_or_default() + 1 };
                self.world.vips.insert(mesh.clone(), stored.clone());
                self.keeper.set_vips(&mesh, Some(stored));
            }
            for wanted in &due.workloads {
                self.world.write_workload(wanted);
                self.keeper.set_workload(&wanted.key, self.world.workloads.get(&wanted.key).cloned());
            }
            for wanted in &due.writes {
                self.world.write(wanted, self.now);
                self.keeper.set_service(&wanted.key, self.world.services.get(&wanted.key).cloned());
            }
            all.extend(due.writes);
            assert!(all.len() < 10_000, "never done: {:?}", all.last());
        }
    }

    /// Some time later.
    fn pass(&mut self, seconds: i64) -> Vec<Wanted> {
        self.now += seconds;
        self.settle()
    }

    /// Somebody else keeps it from now on.
    fn restart(&mut self, backwards: bool) -> Vec<Wanted> {
        self.keeper = self.world.keeper(self.now, backwards);
        self.settle()
    }
}
