//! Property: following the plan never removes a destination in use, and it ends.

use std::collections::BTreeSet;

use kodiak_model::Kri;
use proptest::{collection::vec, prelude::*, sample::subsequence, test_runner::TestCaseResult};

use super::*;
use crate::{
    BreakReason, Consumer, Known, Standing,
    plan::{Broken, Call, Facts, Moving, Step, TrafficFacts, plan},
};

/// The last one cannot be the name of a MeshService.
const SERVICES: [&str; 3] = ["web", "api", "a.b"];
/// More steps than any mesh here needs.
const MOST_STEPS: usize = 60;

/// Destination that a consumer calls.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Service(String),
    /// KRI.
    Port(String),
}

#[derive(Debug, Clone)]
struct Client {
    redirected: bool,
    networking: Value,
    /// Calls that the counters of its Envoy show.
    calls: BTreeSet<Use>,
}

#[derive(Debug, Clone)]
struct Migration {
    mode: MeshServicesMode,
    /// Services with a MeshService.
    objects: BTreeSet<&'static str>,
    clients: Vec<Client>,
    /// For the first calls of clients.
    dice: Vec<bool>,
}

impl Migration {
    fn world(&self) -> World {
        let mut world = World::new(self.mode);
        for service in SERVICES {
            world.serves(&format!("{}-1", valid(service)), service);
        }
        for service in &self.objects {
            let selector = json!({ "dataplaneTags": { "kuma.io/service": service } });
            let name = valid(service);
            let labels = json!({ "kuma.io/display-name": name, "kuma.io/zone": "east", "kuma.io/origin": "zone" });
            let spec = json!({ "selector": selector, "ports": [{ "port": 8080, "targetPort": 8080 }] });
            world.object(BackendKind::MeshService, &name, labels, &spec);
        }
        for (n, client) in self.clients.iter().enumerate() {
            world.proxy(&client_name(n), json!({ "kuma.io/zone": "east" }), &client.networking);
        }
        world
    }

    /// Generated for services whose names are valid.
    fn generate(&mut self) {
        self.objects.extend(SERVICES.iter().filter(|service| valid(service) == **service));
    }

    fn client(&mut self, name: &str) -> &mut Client {
        let n: usize = name.trim_start_matches("client-").parse().unwrap();
        &mut self.clients[n]
    }

    /// Destinations of each client.
    fn reached(&self) -> Vec<BTreeSet<Use>> {
        let world = self.world();
        let reached = |(n, client): (usize, &Client)| {
            let outbounds = world.view.outbounds(&world.view.proxies[client_name(n).as_str()], client.redirected);
            let services = outbounds.services.iter().map(|tags| Use::Service(tags["kuma.io/service"].clone()));
            let port = |port: &str, kri: &Kri| Use::Port(Kri { section: port.to_owned(), ..kri.clone() }.to_string());
            let ports = outbounds.ports.iter().map(|(object, at)| port(&at.section, &object.kri));
            services.chain(ports).collect()
        };
        self.clients.iter().enumerate().map(reached).collect()
    }

    fn first_calls(&mut self) {
        let mut dice = self.dice.clone().into_iter().cycle();
        for (client, reached) in
            self.clients.clone().iter().zip(self.reached()).enumerate().map(|(n, (_, all))| (n, all))
        {
            self.clients[client].calls = reached.into_iter().filter(|_| dice.next().unwrap_or_default()).collect();
        }
    }

    fn facts(&self, watched: bool) -> Facts {
        let world = self.world();
        let landscape = Landscape::of(&world.view);
        let standing = Standing::of("default", &landscape, []);
        let consumer = |(n, client): (usize, &Client)| {
            let known = Known { connected: true, redirected: Some(client.redirected) };
            let proxy = &world.view.proxies[client_name(n).as_str()];
            let services = client.calls.iter().filter_map(|call| match call {
                Use::Service(service) => Some(service.clone()),
                Use::Port(_) => None,
            });
            let objects = client.calls.iter().any(|call| matches!(call, Use::Port(_)));
            let traffic = TrafficFacts { services: services.collect(), objects };
            (Consumer::of(proxy, known, &landscape, &[]), Some(traffic))
        };
        let consumers: Vec<_> = self.clients.iter().enumerate().map(consumer).collect();
        Facts::of(&standing, &consumers, watched, false)
    }

    /// Everything that is called, and every outbound that somebody wrote, is there.
    fn check(&self, step: &Step) -> TestCaseResult {
        for (client, reached) in self.clients.iter().zip(self.reached()) {
            let written = client.tag_outbounds().into_iter().map(Use::Service);
            let in_use: BTreeSet<Use> = written.chain(client.calls.iter().cloned()).collect();
            prop_assert!(in_use.is_subset(&reached), "{step:?}: {in_use:?} of {reached:?} in {self:?}");
        }
        Ok(())
    }

    fn follow(&mut self, step: &Step) -> TestCaseResult {
        match step {
            Step::SetMode(mode, _) => {
                self.mode = *mode;
                self.generate();
            }
            Step::Wait(_) => self.generate(),
            Step::WriteServices(services) => {
                self.objects.extend(SERVICES.iter().filter(|one| services.contains(&(**one).to_owned())));
            }
            Step::ListBackends(proxies) => self.client(&proxies[0]).list_all(),
            Step::MoveConsumers(moving) => {
                for Moving { consumer, calls } in moving {
                    self.move_consumer(consumer, calls)?;
                }
            }
            Step::FixConsumers(broken) => {
                for Broken { consumer, lost } in broken {
                    match lost.reason {
                        BreakReason::OutboundWithTags => self.client(consumer).reference(&lost.destination),
                        BreakReason::NotReachable | BreakReason::NotListed => self.client(consumer).list_all(),
                        BreakReason::NoObject => {
                            self.objects.extend(SERVICES.iter().filter(|one| **one == lost.destination));
                        }
                    }
                }
            }
            Step::Watch | Step::Nothing => (),
            other => return Err(TestCaseError::fail(format!("{other:?}"))),
        }
        Ok(())
    }

    /// To the hostnames that the plan gives, which the consumer must have.
    fn move_consumer(&mut self, consumer: &str, calls: &[Call]) -> TestCaseResult {
        for Call { service, hostnames } in calls {
            if hostnames.is_empty() {
                let client = self.client(consumer);
                if client.redirected {
                    client.list_all();
                } else {
                    client.reference(service);
                }
                continue;
            }
            let world = self.world();
            let redirected = self.client(consumer).redirected;
            let ports = world.view.outbounds(&world.view.proxies[consumer], redirected).ports;
            for hostname in hostnames {
                let named = ports.iter().filter(|(object, _)| object.hostnames.iter().any(|one| **one == **hostname));
                let named: Vec<Use> = named
                    .map(|(object, port)| {
                        Use::Port(Kri { section: port.section.clone(), ..object.kri.clone() }.to_string())
                    })
                    .collect();
                prop_assert!(!named.is_empty(), "{consumer} does not have {hostname}: {self:?}");
                self.client(consumer).calls.extend(named);
            }
            self.client(consumer).calls.remove(&Use::Service(service.clone()));
        }
        Ok(())
    }
}

impl Client {
    fn tag_outbounds(&self) -> Vec<String> {
        let outbounds = self.networking["outbound"].as_array().into_iter().flatten();
        outbounds.filter_map(|outbound| outbound["tags"]["kuma.io/service"].as_str().map(str::to_owned)).collect()
    }

    /// All MeshServices, in `reachableBackends`.
    fn list_all(&mut self) {
        let refs = json!([{ "kind": "MeshService", "labels": {} }]);
        self.networking["transparentProxying"]["reachableBackends"] = json!({ "refs": refs });
    }

    /// A reference in place of tags; the application calls the same local port.
    fn reference(&mut self, service: &str) {
        for outbound in self.networking["outbound"].as_array_mut().into_iter().flatten() {
            if outbound["tags"]["kuma.io/service"] == service {
                let reference = json!({ "kind": "MeshService", "name": valid(service), "port": 8080 });
                *outbound = json!({ "port": outbound["port"], "backendRef": reference });
            }
        }
        self.calls.remove(&Use::Service(service.to_owned()));
    }
}

fn client_name(n: usize) -> String {
    format!("client-{n}")
}

fn valid(service: &str) -> String {
    service.replace('.', "-")
}

fn clients() -> impl Strategy<Value = Client> {
    let services = || subsequence(SERVICES.to_vec(), 0..=SERVICES.len());
    let redirected = (services(), proptest::option::weighted(0.3, services())).prop_map(|(services, backends)| {
        let mut transparent = json!({ "redirectPortOutbound": 15001, "reachableServices": services });
        if let Some(names) = backends {
            let refs = names.iter().map(|name| json!({ "kind": "MeshService", "name": valid(name) }));
            transparent["reachableBackends"] = json!({ "refs": refs.collect::<Vec<_>>() });
        }
        Client { redirected: true, networking: json!({ "transparentProxying": transparent }), calls: BTreeSet::new() }
    });
    let outbound = (any::<bool>(), prop::sample::select(&SERVICES[..]));
    let listed = vec(outbound, 1..4).prop_map(|outbounds| {
        let outbound = |(n, (tags, service)): (usize, (bool, &str))| {
            if tags {
                return json!({ "port": n + 1, "tags": { "kuma.io/service": service } });
            }
            let reference = json!({ "kind": "MeshService", "name": valid(service), "port": 8080 });
            json!({ "port": n + 1, "backendRef": reference })
        };
        let outbounds: Vec<Value> = outbounds.into_iter().enumerate().map(outbound).collect();
        Client { redirected: false, networking: json!({ "outbound": outbounds }), calls: BTreeSet::new() }
    });
    prop_oneof![2 => redirected, 1 => listed]
}

fn migrations() -> impl Strategy<Value = Migration> {
    use MeshServicesMode::{Disabled, Everywhere, ReachableBackends};
    let mode = prop::sample::select(vec![Disabled, Everywhere, ReachableBackends]);
    let objects = subsequence(SERVICES.to_vec(), 0..=SERVICES.len());
    (mode, objects, vec(clients(), 1..4), vec(any::<bool>(), 1..9)).prop_map(|(mode, objects, clients, dice)| {
        let mut migration = Migration { mode, objects: objects.into_iter().collect(), clients, dice };
        migration.first_calls();
        migration
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn following_the_plan_removes_no_destination_in_use(start in migrations()) {
        let mut migration = start;
        let mut watched = false;
        for _ in 0..MOST_STEPS {
            let step = plan(&migration.facts(watched)).next;
            if step == Step::Nothing {
                prop_assert_eq!(migration.mode, MeshServicesMode::Exclusive);
                return Ok(());
            }
            watched |= step == Step::Watch;
            migration.follow(&step)?;
            // The author of a Dataplane rewrites its outbounds.
            migration.check(&step)?;
        }
        prop_assert!(false, "the plan does not end: {:?}", plan(&migration.facts(watched)).next);
    }

    /// Steps that are offered beside the next one, and the rollback, are as safe.
    #[test]
    fn other_steps_of_the_plan_remove_no_destination_in_use(start in migrations()) {
        let all = plan(&start.facts(true));
        for step in all.also.iter().chain(&all.back) {
            if let Step::SetMode(mode, _) = step {
                let mut migration = start.clone();
                migration.mode = *mode;
                if *mode == MeshServicesMode::Disabled {
                    migration.objects.clear();
                }
                migration.check(step)?;
            }
        }
    }
}
