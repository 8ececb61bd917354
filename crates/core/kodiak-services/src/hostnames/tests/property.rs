//! Property: hostnames equal those computed from scratch, whatever the history.

use proptest::prelude::*;
use proptest::sample::select as one_of;

use super::*;

#[derive(Debug, Clone)]
enum Change {
    Generator(Arc<str>, Option<Generator>),
    Service(ServiceKey, Option<TemplateFields>),
}

#[derive(Default)]
struct World {
    generators: BTreeMap<Arc<str>, Generator>,
    services: BTreeMap<ServiceKey, TemplateFields>,
}

impl World {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Generator(name, Some(generator)) => _ = self.generators.insert(name.clone(), generator.clone()),
            Change::Generator(name, None) => _ = self.generators.remove(name),
            Change::Service(key, Some(service)) => _ = self.services.insert(key.clone(), service.clone()),
            Change::Service(key, None) => _ = self.services.remove(key),
        }
    }

    /// Generator by generator, service by service: who comes first has the name.
    fn answers(&self) -> BTreeMap<ServiceKey, Vec<String>> {
        let mut generators: Vec<_> = self.generators.iter().collect();
        let is_local = |generator: &Generator| generator.labels.get("kuma.io/origin").is_some_and(|it| it == "zone");
        generators.sort_by_key(|(name, generator)| (!is_local(generator), generator.created, *name));
        let mut services: Vec<_> = self.services.iter().collect();
        services.sort_by_key(|(key, service)| (service.created, &key.name));
        let mut owners = BTreeMap::new();
        // Addresses and faults of each service, by the name of the generator.
        let mut found: BTreeMap<ServiceKey, [BTreeMap<&str, String>; 2]> =
            self.services.keys().map(|key| (key.clone(), Default::default())).collect();
        for (name, generator) in generators {
            for (key, service) in &services {
                let [addresses, faults] = found.get_mut(*key).unwrap();
                let selector = selector_of(&generator.spec.selector, key.kind);
                if !selector.is_some_and(|selector| selector.matches(&service.labels)) {
                    continue;
                }
                let meta = Meta { mesh: &key.mesh, name: &key.name, labels: &service.labels };
                match parse(&generator.spec.template).and_then(|it| naming::hostname(&it, &meta, "east")) {
                    Err(error) => _ = faults.insert(name, format!("{name} TemplateError {error}")),
                    Ok(hostname) => {
                        let owner = owners.entry((key.kind, &key.mesh, hostname.clone())).or_insert(&key.name);
                        if **owner == key.name {
                            addresses.insert(name, format!("{hostname} by {name}"));
                        } else {
                            let kind = key.kind.text();
                            let whose = format!("{hostname} belongs to {kind} {owner}, which a generator named first");
                            faults.insert(name, format!("{name} Collision {whose}"));
                        }
                    }
                }
            }
        }
        found
            .into_iter()
            .map(|(key, found)| (key, found.into_iter().flat_map(BTreeMap::into_values).collect()))
            .collect()
    }
}

fn generators() -> impl Strategy<Value = Option<Generator>> {
    let templates =
        one_of(vec!["{{ .Name }}.mesh", "{{ .DisplayName }}.mesh", "x.mesh", r#"{{ label "app" }}.mesh"#, "{{"]);
    let selectors = one_of(vec![
        json!({ "meshService": {} }),
        json!({ "meshService": { "matchLabels": { "app": "a" } } }),
        json!({ "meshExternalService": {} }),
        json!({ "meshService": {}, "meshMultiZoneService": { "matchLabels": { "app": "b" } } }),
    ]);
    let parts = (templates, selectors, one_of(vec!["zone", "global"]), 0..3_i64);
    prop::option::weighted(
        0.8,
        parts.prop_map(|(template, selector, origin, created)| {
            generator(created, origin, json!({ "template": template, "selector": selector }))
        }),
    )
}

fn services() -> impl Strategy<Value = Option<TemplateFields>> {
    let written = one_of(vec![
        json!({}),
        json!({ "app": "a" }),
        json!({ "app": "b", "kuma.io/display-name": "s1" }),
        json!({ "app": "B", "kuma.io/display-name": "x" }),
    ]);
    prop::option::weighted(0.8, (written, 0..3_i64).prop_map(|(written, created)| service(created, &written)))
}

fn changes() -> impl Strategy<Value = Change> {
    let kinds = Word::ALL.iter().map(|(_, kind)| *kind).collect::<Vec<BackendKind>>();
    let keys = (one_of(kinds), one_of(vec!["default", "other"]), 0..4_u8);
    let keys = keys.prop_map(|(kind, mesh, n)| ServiceKey { kind, mesh: name(mesh), name: name(&format!("s{n}")) });
    prop_oneof![
        1 => (0..4_u8, generators()).prop_map(|(n, it)| Change::Generator(name(&format!("g{n}")), it)),
        3 => (keys, services()).prop_map(|(key, it)| Change::Service(key, it)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hostnames_do_not_depend_on_history(changes in prop::collection::vec(changes(), 1..60)) {
        let (mut hostnames, mut world) = (Hostnames::new("east"), World::default());
        let mut before = BTreeMap::new();
        for change in changes {
            world.apply(&change);
            let concerned = match &change {
                Change::Generator(name, generator) => hostnames.set_generator(name, generator.clone()),
                Change::Service(key, service) => hostnames.set_service(key, service.clone()),
            };
            let after: BTreeMap<_, _> =
                world.services.keys().map(|key| (key.clone(), answer(&hostnames, key))).collect();
            prop_assert_eq!(&after, &world.answers());
            for (key, said) in &after {
                prop_assert!(before.get(key) == Some(said) || concerned.contains(key), "{:?} after {:?}", key, change);
            }
            before = after;
        }
    }
}
