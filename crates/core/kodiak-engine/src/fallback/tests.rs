//! Every fault in every type of resource, with and without earlier versions.

use kodiak_xds::check::{Links, PatchTrace};
use kodiak_xds_stream::{Encoded, Version};
use proptest::prelude::*;
use prost::bytes::Bytes;

use super::*;

const AT: &str = "MeshProxyPatch \"p\": spec.default.appendModifications[0].listener";

fn id(type_url: TypeUrl, name: &str) -> ResourceId {
    (type_url, name.into())
}

fn built(type_url: TypeUrl, name: &str, version: u128, links: Links) -> Built {
    let encoded = Encoded {
        name: name.into(),
        version: Version(version),
        needs: Box::default(),
        delta: Bytes::default(),
        sotw: Bytes::default(),
    };
    Built { type_url, encoded: Arc::new(encoded), links: Arc::new(links) }
}

fn needs(needs: &[ResourceId]) -> Links {
    Links { needs: needs.to_vec(), ..Links::default() }
}

/// Versions of resources, each at most one of a level.
#[derive(Debug, Clone, Default)]
struct Fake {
    current: Vec<Built>,
    last_modifications: BTreeMap<ResourceId, Built>,
    /// Without the modification, if one changes or removes the resource.
    unmodified: BTreeMap<ResourceId, Option<Built>>,
    published: BTreeMap<ResourceId, Built>,
    /// Published versions with other permissions.
    forbidden: BTreeSet<ResourceId>,
}

impl Versions for Fake {
    fn with_last_modifications(&self, id: &ResourceId) -> Option<Built> {
        self.last_modifications.get(id).cloned()
    }

    fn without(&self, id: &ResourceId, excluded: &BTreeSet<Arc<str>>) -> Option<Built> {
        if excluded.is_empty() {
            return self.current.iter().find(|built| id_of(built) == *id).cloned();
        }
        self.unmodified.get(id).cloned().flatten()
    }

    fn remover(&self, id: &ResourceId, excluded: &BTreeSet<Arc<str>>) -> Option<Arc<str>> {
        let removed = excluded.is_empty() && self.current.iter().all(|built| id_of(built) != *id);
        (removed && self.unmodified.get(id).is_some_and(Option::is_some)).then(|| AT.into())
    }

    fn published(&self, id: &ResourceId) -> Option<Built> {
        self.published.get(id).cloned()
    }

    fn is_awaited(&self, _: &ResourceId) -> bool {
        false
    }

    fn may_stay(&self, id: &ResourceId, _: &Built) -> bool {
        !self.forbidden.contains(id)
    }
}

impl Fake {
    fn settled(&self) -> BTreeMap<ResourceId, u128> {
        let settled = settle(&self.current, self);
        settled.resources.into_iter().map(|(id, built)| (id, built.encoded.version.0)).collect()
    }
}

/// A listener, its cluster with endpoints and a secret, and a second listener with its own cluster; version 1.
fn healthy() -> Vec<Built> {
    use TypeUrl::{Cluster, Endpoint, Listener, Secret};
    let binds = |address: &str, to: &str| Links { binds: Some(address.to_owned()), ..needs(&[id(Cluster, to)]) };
    vec![
        built(Listener, "a", 1, binds("1:1", "x")),
        built(Cluster, "x", 1, needs(&[id(Endpoint, "x"), id(Secret, "s")])),
        built(Endpoint, "x", 1, Links::default()),
        built(Secret, "s", 1, Links::default()),
        built(Listener, "b", 1, binds("1:2", "y")),
        built(Cluster, "y", 1, Links::default()),
    ]
}

fn map(built: &[Built]) -> BTreeMap<ResourceId, Built> {
    built.iter().map(|built| (id_of(built), built.clone())).collect()
}

fn next_version(built: &Built, links: Links) -> Built {
    self::built(built.type_url, &built.encoded.name, 2, links)
}

/// Ways in which the current version of a resource is at fault. `None` if its type cannot be.
fn broken(built: &Built, kind: &str) -> Option<Links> {
    let links = Links::clone(&built.links);
    let nowhere = id(TypeUrl::Cluster, "nowhere");
    let is_listener = built.type_url == TypeUrl::Listener;
    Some(match kind {
        "own" => Links { faults: vec!["is bad".to_owned()], ..links },
        "dangling" if is_listener => Links { needs: links.needs.iter().cloned().chain([nowhere]).collect(), ..links },
        "clash" if is_listener => Links { binds: Some("1:2".to_owned()), ..links },
        "patch" if matches!(built.type_url, TypeUrl::Listener | TypeUrl::Cluster) => {
            let trace = PatchTrace { faults: vec![(AT.into(), "is bad".to_owned())], ..PatchTrace::default() };
            Links { patch: Some(Arc::new(trace)), ..links }
        }
        _ => return None,
    })
}

/// The resources that reference it, directly or not, and it.
fn closure(of: &ResourceId, among: &[Built]) -> BTreeSet<ResourceId> {
    let mut found = BTreeSet::from([of.clone()]);
    loop {
        let more = among.iter().filter(|built| built.links.needs.iter().any(|need| found.contains(need)));
        let before = found.len();
        found.extend(more.map(id_of).collect::<Vec<_>>());
        if found.len() == before {
            return found;
        }
    }
}

#[test]
fn faulty_resource_stays_or_goes_with_those_that_reference_it() {
    let mut tried = 0;
    for faulty in ["a", "x", "s"] {
        for (n, resource) in healthy().iter().enumerate().filter(|(_, built)| *built.encoded.name == *faulty) {
            for kind in ["own", "dangling", "clash", "patch"] {
                for had_good in [false, true] {
                    let Some(links) = broken(resource, kind) else { continue };
                    // Without a published one, the first listener keeps the address.
                    if kind == "clash" && !had_good {
                        continue;
                    }
                    tried += 1;
                    let mut fake = Fake { current: healthy(), ..Fake::default() };
                    fake.current[n] = next_version(resource, links);
                    // All others have new versions, too.
                    for other in (0..fake.current.len()).filter(|other| *other != n) {
                        let links = Links::clone(&fake.current[other].links);
                        fake.current[other] = next_version(&fake.current[other], links);
                    }
                    if had_good {
                        fake.published = map(&healthy());
                    }
                    let involved = closure(&id_of(resource), &fake.current);
                    let settled = fake.settled();
                    for built in &fake.current {
                        let id = id_of(built);
                        let expected = match () {
                            () if id == id_of(resource) => had_good.then_some(1),
                            () if !involved.contains(&id) || had_good => Some(2),
                            () => None,
                        };
                        // Nothing references the endpoints and the secret of a cluster that is left out.
                        let is_of_x = matches!(id.0, TypeUrl::Endpoint | TypeUrl::Secret);
                        let unused = is_of_x && !settled.contains_key(&self::id(TypeUrl::Cluster, "x"));
                        let expected = expected.filter(|_| !unused);
                        assert_eq!(settled.get(&id).copied(), expected, "{kind} in {resource:?}, {had_good}: {id:?}");
                    }
                }
            }
        }
    }
    assert_eq!(tried, 15, "four faults of a listener, two of a cluster, one of others, each twice but for one");
}

#[test]
fn modifications_at_fault_are_replaced_by_the_last_good_ones_and_then_dropped() {
    let listener = id(TypeUrl::Listener, "a");
    let mut fake = Fake { current: healthy(), ..Fake::default() };
    let resource = fake.current[0].clone();
    fake.current[0] = next_version(&resource, broken(&resource, "patch").unwrap());
    fake.published = map(&healthy());
    fake.unmodified.insert(listener.clone(), Some(built(TypeUrl::Listener, "a", 3, Links::clone(&resource.links))));
    assert_eq!(fake.settled()[&listener], 3, "made from the current state, so before the published one");
    fake.last_modifications.insert(listener.clone(), built(TypeUrl::Listener, "a", 4, Links::clone(&resource.links)));
    assert_eq!(fake.settled()[&listener], 4);
    // Those of the past do not fit any more.
    let links = needs(&[id(TypeUrl::Cluster, "gone")]);
    fake.last_modifications.insert(listener.clone(), built(TypeUrl::Listener, "a", 5, links));
    assert_eq!(fake.settled()[&listener], 3);
}

#[test]
fn published_listener_with_other_permissions_does_not_stay() {
    let mut fake = Fake { current: healthy(), published: map(&healthy()), ..Fake::default() };
    let resource = fake.current[0].clone();
    fake.current[0] = next_version(&resource, broken(&resource, "own").unwrap());
    fake.forbidden.insert(id(TypeUrl::Listener, "a"));
    let settled = fake.settled();
    assert!(!settled.contains_key(&id(TypeUrl::Listener, "a")) && settled.contains_key(&id(TypeUrl::Listener, "b")));
}

#[test]
fn removed_resource_comes_back_with_all_that_it_references() {
    use TypeUrl::{Cluster, Endpoint, Listener};
    let mut fake = Fake { current: healthy(), ..Fake::default() };
    let removed: Vec<Built> = fake.current.extract_if(1..3, |_| true).collect();
    fake.unmodified = removed.iter().map(|built| (id_of(built), Some(built.clone()))).collect();
    let all = fake.settled();
    assert_eq!(all, Fake { current: healthy(), ..Fake::default() }.settled());
    // What a modification introduced is its own fault.
    let trace = PatchTrace { needs: [(id(Cluster, "x"), AT.into())].into(), ..PatchTrace::default() };
    let links = Links { patch: Some(Arc::new(trace)), ..Links::clone(&fake.current[0].links) };
    fake.current[0] = built(Listener, "a", 2, links);
    fake.unmodified.insert(id(Listener, "a"), Some(built(Listener, "a", 3, needs(&[id(Cluster, "y")]))));
    let settled = fake.settled();
    assert_eq!(settled[&id(Listener, "a")], 3);
    assert!(!settled.contains_key(&id(Cluster, "x")) && !settled.contains_key(&id(Endpoint, "x")));
}

#[test]
fn of_two_resources_with_one_name_the_published_one_stays() {
    let listener = |version, to: &str| built(TypeUrl::Listener, "a", version, needs(&[id(TypeUrl::Cluster, to)]));
    let cluster = |name: &str| built(TypeUrl::Cluster, name, 1, Links::default());
    let current = vec![listener(1, "x"), listener(2, "y"), cluster("x"), cluster("y")];
    let mut fake = Fake { current, ..Fake::default() };
    let name = id(TypeUrl::Listener, "a");
    assert_eq!(fake.settled()[&name], 1, "the first");
    fake.published.insert(name.clone(), listener(2, "y"));
    assert_eq!(fake.settled()[&name], 2);
    fake.published.insert(name.clone(), listener(9, "y"));
    assert_eq!(fake.settled()[&name], 2, "it changed since");
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn an_id() -> impl Strategy<Value = ResourceId> {
    let type_url = prop::sample::select(&[TypeUrl::Listener, TypeUrl::Cluster, TypeUrl::Endpoint, TypeUrl::Secret][..]);
    (type_url, prop::sample::select(&NAMES[..])).prop_map(|(type_url, name)| id(type_url, name))
}

fn a_resource(of: ResourceId) -> impl Strategy<Value = Built> {
    let lower = |of: &ResourceId, need: &ResourceId| match of.0 {
        TypeUrl::Listener => matches!(need.0, TypeUrl::Cluster | TypeUrl::Secret),
        TypeUrl::Cluster => matches!(need.0, TypeUrl::Endpoint | TypeUrl::Secret),
        TypeUrl::Endpoint | TypeUrl::Route | TypeUrl::Secret => false,
    };
    let address = prop::option::weighted(0.7, prop::sample::select(&["1:1", "1:2", "1:3", "1:4"][..]));
    let patched = prop::option::weighted(0.3, any::<(bool, bool, bool)>());
    (prop::collection::vec(an_id(), 0..3), address, prop::bool::weighted(0.15), patched, 0..100u128).prop_map(
        move |(wanted, address, is_faulty, patched, version)| {
            let needs: BTreeSet<ResourceId> = wanted.into_iter().filter(|need| lower(&of, need)).collect();
            let needs: Vec<ResourceId> = needs.into_iter().collect();
            let binds = address.filter(|_| of.0 == TypeUrl::Listener).map(str::to_owned);
            let patch = patched.map(|(fault, need, bind)| PatchTrace {
                faults: fault.then(|| (AT.into(), "is bad".to_owned())).into_iter().collect(),
                needs: needs.iter().filter(|_| need).map(|need| (need.clone(), AT.into())).collect(),
                binds: (bind && binds.is_some()).then(|| AT.into()),
            });
            let faults = if is_faulty { vec!["is bad".to_owned()] } else { Vec::new() };
            built(of.0, &of.1, version, Links { needs, binds, faults, patch: patch.map(Arc::new) })
        },
    )
}

fn resources() -> impl Strategy<Value = Vec<Built>> {
    prop::collection::vec(an_id().prop_flat_map(a_resource), 0..14)
}

fn versions() -> impl Strategy<Value = Fake> {
    let unmodified = prop::collection::btree_map(an_id(), prop::option::of(Just(())), 0..6);
    (resources(), resources(), resources(), resources(), unmodified, prop::collection::btree_set(an_id(), 0..4))
        .prop_map(|(current, last, unmodified, published, absent, forbidden)| {
            let mut unmodified: BTreeMap<_, _> = map(&unmodified).into_iter().map(|(id, it)| (id, Some(it))).collect();
            unmodified.extend(absent.into_keys().map(|id| (id, None)));
            // What was published had no faults.
            let published = settle(&published, &Fake::default()).resources;
            Fake { current, last_modifications: map(&last), unmodified, published, forbidden }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn result_has_no_faults_and_keeps_what_takes_part_in_none(fake in versions()) {
        let Settled { resources, stale } = settle(&fake.current, &fake);
        let mut bound = BTreeSet::new();
        for (id, built) in &resources {
            let links = &built.links;
            prop_assert_eq!(id, &id_of(built));
            prop_assert!(links.faults.is_empty() && links.patch.as_ref().is_none_or(|trace| trace.faults.is_empty()));
            for need in &links.needs {
                prop_assert!(resources.contains_key(need), "{:?} needs {:?}", id, need);
            }
            if let Some(address) = &links.binds {
                prop_assert!(bound.insert(address.clone()), "{} has two listeners", address);
            }
            // Versions are where they say to be from.
            let all = fake.current.iter().chain(fake.last_modifications.values());
            let mut all = all.chain(fake.unmodified.values().flatten());
            prop_assert!(all.any(|known| known == built) || fake.published.get(id) == Some(built));
        }
        prop_assert!(stale.iter().all(|id| fake.published.contains_key(id) && !fake.forbidden.contains(id)));

        // All that takes part in a fault.
        let current = map(&fake.current);
        let mut involved = BTreeSet::new();
        for (n, built) in fake.current.iter().enumerate() {
            let id = id_of(built);
            let links = &built.links;
            let same_name = fake.current.iter().enumerate().any(|(other, it)| other != n && id_of(it) == id);
            let same_address =
                fake.current.iter().any(|other| links.binds.is_some() && other.links.binds == links.binds && id_of(other) != id);
            let is_bad = !links.faults.is_empty() || links.patch.as_ref().is_some_and(|trace| !trace.faults.is_empty());
            let lacks = links.needs.iter().any(|need| !current.contains_key(need));
            if same_name || same_address || is_bad || lacks {
                involved.extend(closure(&id, &fake.current));
            }
        }
        for (id, built) in current.iter().filter(|(id, _)| !involved.contains(*id)) {
            let needed = resources.values().any(|it| it.links.needs.contains(id));
            let is_unused = match id.0 {
                TypeUrl::Endpoint | TypeUrl::Secret => !needed,
                TypeUrl::Cluster | TypeUrl::Listener | TypeUrl::Route => false,
            };
            prop_assert_eq!(resources.get(id), Some(built).filter(|_| !is_unused), "{:?}", id);
        }
    }
}
