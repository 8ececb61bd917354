//! The work for one proxy does not grow with the mesh.

use super::*;

/// Work for a proxy that connects, becomes unhealthy and leaves, in a mesh of so many services with five proxies each.
fn work_in(services: u32) -> Work {
    let mut kept = Kept::new();
    kept.generator("local", &json!({ "selector": { "meshService": {} }, "template": "{{ .Name }}.mesh" }));
    for n in 0..services {
        for copy in 0..5 {
            kept.serving(&format!("p{n}-{copy}"), &format!("s{n}"));
        }
    }
    kept.settle();
    let before = kept.keeper.work();
    kept.serving("new", "s0");
    kept.settle();
    kept.dataplane("new", &json!([{ "port": 80, "state": "NotReady", "tags": { "kuma.io/service": "s0" } }]));
    kept.settle();
    kept.gone("new");
    kept.settle();
    let after = kept.keeper.work();
    Work {
        services_looked_at: after.services_looked_at - before.services_looked_at,
        workloads_looked_at: after.workloads_looked_at - before.workloads_looked_at,
        spec_writes: after.spec_writes - before.spec_writes,
        status_writes: after.status_writes - before.status_writes,
    }
}

#[test]
fn work_for_a_proxy_is_proportional_to_its_services() {
    let small = work_in(10);
    // Each of the three changes, and each time what was written.
    assert_eq!(small, Work { services_looked_at: 6, workloads_looked_at: 0, spec_writes: 0, status_writes: 3 });
    assert_eq!(work_in(400), small);
}
