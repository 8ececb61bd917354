//! Property: ignoring destinations that cannot be targets changes nothing, and proxies have the reported targets.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::kinds::mesh::MeshServicesMode;
use kodiak_world::Destination;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{backends, destinations, outbound, proxy};
use crate::reference_status::{ReferenceContext, could_be_meant, has_references, of};
use kodiak_services::reachable::reachable;

fn reference() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(vec!["MeshService", "MeshExternalService", "MeshMultiZoneService"]);
    let name = prop::sample::select(vec!["web", "api", "back", "till", "bank", "far", "all", "gone"]);
    let label = prop::sample::select(vec![("team", "a"), ("kuma.io/zone", "west"), ("size", "s"), ("x", "y")]);
    let labels = prop::collection::vec(label, 1..3).prop_map(BTreeMap::from_iter);
    prop_oneof![
        (kind.clone(), name, prop::sample::select(vec!["", "shop"]), 80_u32..83).prop_map(
            |(kind, name, namespace, port)| {
                json!({ "kind": kind, "name": name, "namespace": namespace, "port": port })
            }
        ),
        (kind, labels).prop_map(|(kind, labels)| json!({ "kind": kind, "labels": labels, "port": 80 })),
    ]
}

proptest! {
    #[test]
    fn ignoring_impossible_targets_changes_nothing(
        refs in prop::collection::vec(reference(), 0..3), written in reference(), services in any::<bool>(),
    ) {
        let mut networking = backends(&json!(refs));
        networking["outbound"] = outbound(&written)["outbound"].clone();
        if services {
            networking["transparentProxying"]["reachableServices"] = json!(["web", "gone"]);
        }
        let proxy = proxy(&networking);
        prop_assert!(has_references(&proxy.dataplane, MeshServicesMode::Everywhere));
        let all = destinations();
        let some: Vec<Arc<Destination>> = all
            .iter()
            .filter(|destination| could_be_meant(&proxy.dataplane, &destination.name, &destination.labels))
            .cloned()
            .collect();
        let context = |destinations| ReferenceContext {
            mode: MeshServicesMode::Everywhere, destinations, objects: 9, is_served: &|_| false, redirected: None,
        };
        prop_assert_eq!(of(&proxy, context(&all)), of(&proxy, context(&some)));
    }

    #[test]
    fn outbound_has_no_problem_iff_proxies_use_it(written in reference()) {
        let networking = outbound(&written);
        let proxy = proxy(&networking);
        let all = destinations();
        let context = ReferenceContext {
            mode: MeshServicesMode::ReachableBackends,
            destinations: &all,
            objects: 9,
            is_served: &|_| false,
            redirected: Some(false),
        };
        let found = of(&proxy, context);
        let called = reachable(&all, MeshServicesMode::ReachableBackends, &proxy, false);
        prop_assert_eq!(found[0].trouble.is_none(), called.len() == 1);
    }

    #[test]
    fn entry_of_a_reachable_list_has_the_targets_of_proxies(written in reference()) {
        let proxy = proxy(&backends(&json!([written])));
        let all = destinations();
        let context = ReferenceContext {
            mode: MeshServicesMode::Exclusive, destinations: &all, objects: 9, is_served: &|_| false, redirected: None,
        };
        let found = of(&proxy, context);
        let called = reachable(&all, MeshServicesMode::Exclusive, &proxy, false);
        prop_assert_eq!(found[0].means.len(), called.len());
        prop_assert_eq!(found[0].trouble.is_none(), !called.is_empty());
    }
}
