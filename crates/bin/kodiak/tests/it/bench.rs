//! Small benchmarks: counts are tested, never times.

use serde_json::Value;

use crate::Kodiak;

/// JSON object of the last line.
fn measured(args: &str) -> Value {
    let arguments: Vec<_> = ["bench", "xds", "--json", "--idle", "0"].into_iter().chain(args.split(' ')).collect();
    let ran = Kodiak::new().run(&arguments).is(0);
    serde_json::from_str(ran.out.lines().last().unwrap()).unwrap()
}

#[track_caller]
fn check(measured: &Value, proxies: u64, services: u64) {
    for key in ["served_s", "bytes", "server_cpu_s", "server_rss_mb", "encoded"] {
        assert!(measured[key].is_number(), "{key}: {measured}");
    }
    assert_eq!((measured["proxies"].as_u64(), measured["services"].as_u64()), (Some(proxies), Some(services)));
    for change in ["endpoint_change", "mesh_change"] {
        for key in ["bytes", "p50_ms", "p99_ms", "max_ms"] {
            assert!(measured[change][key].is_number(), "{change}.{key}: {measured}");
        }
        assert!(measured[change]["bytes"].as_u64() > Some(0), "{measured}");
        assert_eq!(measured[change]["woken"], proxies, "{measured}");
    }
    assert_eq!(measured["endpoint_change"]["encoded"], 1, "{measured}");
    assert!(measured["mesh_change"]["encoded"].as_u64() > Some(0), "{measured}");
}

#[test]
fn endpoint_change_is_encoded_once_for_all_proxies() {
    check(&measured("--proxies 20 --services 30 --changes 2"), 20, 30);
}

#[test]
fn additional_proxies_are_instances_of_services() {
    check(&measured("--proxies 7 --services 3 --changes 1 --mtls --dns"), 7, 3);
}

#[test]
fn measures_state_of_the_world_xds() {
    check(&measured("--proxies 5 --services 8 --changes 1 --mtls --sotw"), 5, 8);
}

#[test]
fn measures_proxies_that_provide_their_dataplanes() {
    for args in
        ["--proxies 20 --services 20 --mtls", "--proxies 3 --services 8 --dns", "--proxies 9 --services 4 --sotw"]
    {
        let arguments: Vec<_> = ["bench", "xds", "--arrive", "--json"].into_iter().chain(args.split(' ')).collect();
        let ran = Kodiak::new().run(&arguments).is(0);
        let measured: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
        for key in ["served_s", "settled_s", "commits", "rounds", "encoded", "woken", "bytes"] {
            assert!(measured[key].as_f64() > Some(0.0), "{key}: {measured}");
        }
    }
}

#[test]
fn rejects_zero_proxies() {
    let kodiak = Kodiak::new();
    kodiak.run(&["bench", "xds", "--arrive", "--changes", "3"]).is(2);
    for wrong in ["--proxies", "--services", "--changes", "--concurrency"] {
        kodiak.run(&["bench", "xds", wrong, "0"]).is(2);
    }
}

#[test]
fn cost_of_a_policy_change_does_not_depend_on_the_size_of_the_mesh() {
    let args = ["--policies", "320", "--proxies", "200", "--services", "100", "--connected", "100", "--changes", "5"];
    let ran = Kodiak::new().run(&[&["bench", "policies", "--json"][..], &args].concat()).is(0);
    let measured: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    for key in ["rebuild_s", "rebuild_rules", "rebuild_lists", "file_s"] {
        assert!(measured[key].as_f64() > Some(0.0), "{key}: {measured}");
    }
    for (object, concerned) in [("mesh", 200.0), ("service", 2.0), ("labels", 2.0), ("tenth_mesh", 20.0)] {
        assert_eq!(measured[object]["concerned"].as_f64(), Some(concerned), "{object}: {measured}");
    }
    for object in ["service", "labels"] {
        let tenth = &measured[format!("tenth_{object}")];
        assert_eq!(measured[object]["concerned"], tenth["concerned"], "{object}: {measured}");
        assert!(measured[object]["rules"].as_f64() > Some(0.0), "{object}: {measured}");
    }
    assert_eq!(measured["engine"]["connected"], 100);
    assert!(measured["engine_mesh"]["woken"].as_f64() > measured["engine_service"]["woken"].as_f64(), "{measured}");
    assert!(measured["engine_service"]["encoded"].as_f64() > Some(0.0), "{measured}");
}

#[test]
fn trimmed_envoy_has_the_clusters_of_its_destinations_alone() {
    let Some(envoy) = kodiak_testkit::envoy::envoy() else { return };
    let sizes = ["--sizes", "20", "--edges", "4", "--change-sizes", "20", "--envoy-services", "40"];
    let args = [&sizes[..], &["--envoy", envoy.to_str().unwrap()]].concat();
    let ran = Kodiak::new().run(&[&["bench", "reach", "--json"][..], &args].concat()).is(0);
    let measured: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    assert_eq!(measured["sizes"][0]["reachable"], 80, "{measured}");
    let [all, trimmed] = &measured["envoy"].as_array().unwrap()[..] else { panic!("{measured}") };
    assert_eq!((&all["trimming"], &trimmed["trimming"]), (&"off".into(), &"on".into()));
    let lost = |key: &str| all[key].as_u64().unwrap() - trimmed[key].as_u64().unwrap();
    assert_eq!((lost("clusters"), lost("listeners")), (36, 36), "{measured}");
    assert!(lost("received_bytes") > 0, "{measured}");
    for key in ["rss_mib", "heap_mib", "ready_ms"] {
        assert!(trimmed[key].as_f64() > Some(0.0), "{key}: {measured}");
    }
}

#[test]
fn switch_of_identity_sends_one_secret_to_each_proxy() {
    let args = ["--leaves", "20", "--proxies", "30", "--calls", "3"];
    let ran = Kodiak::new().run(&[&["bench", "identity", "--json"][..], &args].concat()).is(0);
    let measured: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    assert_eq!(measured["leaves"]["count"], 20, "{measured}");
    let steps = measured["steps"].as_array().unwrap();
    let phases: Vec<_> = steps.iter().map(|step| step["phase"].as_str().unwrap()).collect();
    assert_eq!(phases, ["trust", "expect", "issue", "remove"], "{measured}");
    let issue = &steps[2];
    for key in ["encoded", "woken", "issued"] {
        assert_eq!(issue[key], 30, "{key}: {measured}");
    }
    Kodiak::new().run(&["bench", "identity", "--proxies", "0"]).is(2);
}
