//! At a step between two meshes, reports of trimmed destinations are what the engine trims.

use kodiak_inspection::calls::Trimming;
use kodiak_model::{Cancellation, ProxyKey};
use kodiak_oracle::meshes::{MESH, all_meshes};
use kodiak_oracle::settled::Settled;
use kodiak_reachability::Mode;
use proptest::prelude::*;

use crate::{answers::backend, trimmed::documents};

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn report_shows_what_the_engine_trims_at_every_step(mesh in all_meshes(), before in all_meshes()) {
        let [after, before] = [&mesh, &before].map(|mesh| Settled::of(documents(mesh)).unwrap());
        let settled = after.moving_from(&before);
        let [everything, trimmed] = [Mode::Off, Mode::On].map(|mode| settled.oracle(mode));
        let trimming = Trimming::of(&settled.world, MESH, Mode::On, &Cancellation::never()).unwrap();
        for sidecar in mesh.sidecars.iter().filter(|sidecar| sidecar.is_redirected()) {
            let proxy = settled.world.proxy(&ProxyKey::new(MESH, &sidecar.name)).unwrap();
            let client = trimming.client(proxy);
            for (name, address, port) in settled.destinations() {
                let [had, has] = [&everything, &trimmed]
                    .map(|oracle| oracle.has_listener(&sidecar.name, &address.to_string(), port));
                let is_trimmed = trimming.exempt(proxy).is_none() && client.trims_port(&backend(&settled.world, &name, port));
                prop_assert_eq!(had && !has, had && is_trimmed, "{} and {}:{}", sidecar.name, name, port);
            }
        }
    }
}
