//! Counts do not grow with the mesh.

use super::*;

#[test]
fn changed_permission_affects_its_old_and_new_callers_alone() {
    for services in [200, 400] {
        let (_, measured) = measure(Size { services, edges: 4 }, 5).unwrap();
        assert_eq!(measured.reachable, services * 4);
        assert_eq!(measured.affected, 8, "four callers before, four others after");
    }
}

#[test]
fn changes_cost_the_same_in_meshes_of_all_sizes() {
    for scenario in Scenario::ALL {
        let [small, large] = [20, 40].map(|services| scenario.measure(Size { services, edges: 4 }, 2).unwrap().stats);
        assert_eq!((small.encoded, small.woken), (large.encoded, large.woken), "{scenario:?}");
    }
}
