//! Answers from files are those of the control plane that has them.

use std::collections::BTreeSet;

use kodiak_inspection::calls::{Calls, Trimming};
use kodiak_model::Cancellation;
use kodiak_oracle::meshes::{MESH, all_meshes};
use kodiak_oracle::settled::{Settled, offline_with};
use kodiak_reachability::Mode;
use kodiak_rules::Shadow;
use kodiak_world::World;
use kodiak_xds_stream::TypeUrl;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn calls_and_trimming_of_files_are_those_of_the_store(mesh in all_meshes(), is_on in any::<bool>()) {
        let settled = Settled::of(mesh.documents()).map_err(TestCaseError::fail)?;
        let exported = settled.exported();
        let mode = if is_on { Mode::On } else { Mode::Off };
        let (stored, files) = (calls(&settled.world), calls(&exported.world));
        prop_assert_eq!(&stored.destinations, &files.destinations);
        let [by_store, by_files] = [&settled.world, &exported.world]
            .map(|world| Trimming::of(world, MESH, mode, &Cancellation::never()).unwrap());
        for proxy in settled.world.proxies(MESH) {
            let [one, other] = [&by_store, &by_files].map(|trimming| trimming.client(proxy));
            prop_assert_eq!(by_store.mode(proxy), by_files.mode(proxy));
            for target in &stored.destinations {
                prop_assert_eq!(stored.may(&proxy.name, target), files.may(&proxy.name, target));
                prop_assert_eq!(one.trims(target), other.trims(target), "{} {:?}", proxy.name, target);
            }
        }
    }

    /// Virtual addresses differ: files have none.
    #[test]
    fn clusters_of_files_are_those_of_the_control_plane(mesh in all_meshes(), is_on in any::<bool>()) {
        let settled = Settled::of(mesh.documents()).map_err(TestCaseError::fail)?;
        let mode = if is_on { Mode::On } else { Mode::Off };
        let [by_store, by_files] = [&settled, &settled.exported()].map(|of| {
            let mut engine = offline_with(mode, of.changes());
            of.connect(&mut engine);
            engine
        });
        for key in settled.proxies() {
            let clusters = |engine: &kodiak_engine::offline::OfflineMesh| -> BTreeSet<String> {
                let snapshot = engine.snapshot(&key).unwrap();
                snapshot.of(TypeUrl::Cluster).keys().map(ToString::to_string).collect()
            };
            prop_assert_eq!(clusters(&by_store), clusters(&by_files), "{}", key.name);
        }
    }
}

fn calls(world: &World) -> Calls {
    Calls::of(world, MESH, Shadow::Ignored, &Cancellation::never()).unwrap()
}
