//! Sources of the configuration, and invalid values.

use kodiak_services::{generated_services::Source, service_status::ServiceSettings};

use super::*;

fn sources(file: &str, environment: &[(&str, &str)], flags: &[&str]) -> Sources {
    Sources {
        file: Some(("kodiak.yaml".to_owned(), file.to_owned())),
        environment: environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
    }
}

#[track_caller]
fn refused(sources: &Sources, expected: &str) {
    assert_eq!(super::load(sources).unwrap_err().to_string(), expected);
}

fn load(sources: &Sources) -> Result<Config, LoadError> {
    super::load(sources).map(|loaded| loaded.config)
}

#[test]
fn later_sources_override_earlier_ones() {
    let file =
        "apiServer:\n  http:\n    enabled: true\n    interface: 127.0.0.1\n    port: 1\nmultizone: {zone: {name: a}}\n";
    let config = load(&sources(file, &[], &[])).unwrap();
    assert_eq!((config.api_server.http.port, config.multizone.zone.name.as_str()), (1, "a"));
    assert!(config.api_server.http.enabled, "keys that are not in the file keep their defaults");
    let config = load(&sources(file, &[("KODIAK_API_SERVER_HTTP_PORT", "2")], &[])).unwrap();
    assert_eq!(config.api_server.http.port, 2);
    let config = load(&sources(file, &[("KODIAK_API_SERVER_HTTP_PORT", "2")], &["apiServer.http.port=3"])).unwrap();
    assert_eq!(config.api_server.http.port, 3);
}

#[test]
fn lists_are_separated_by_commas() {
    let config =
        load(&sources("", &[("KODIAK_API_SERVER_CORS_ALLOWED_DOMAINS", "https://a, https://b")], &[])).unwrap();
    assert_eq!(config.api_server.cors_allowed_domains, ["https://a", "https://b"]);
}

#[test]
fn unknown_settings_are_errors_with_their_source() {
    refused(
        &sources("apiServer:\n  htp: {}\n", &[], &[]),
        "kodiak.yaml:2:3: apiServer.htp: no such setting; did you mean apiServer.http?",
    );
    refused(&sources("a: [", &[], &[]), "kodiak.yaml:2:1: while parsing a node, did not find expected node content");
    refused(
        &sources("", &[("KODIAK_API_SERVER_HTTP_PROT", "1")], &[]),
        "KODIAK_API_SERVER_HTTP_PROT: no such setting; did you mean KODIAK_API_SERVER_HTTP_PORT?",
    );
    refused(
        &sources("", &[], &["api.port=1"]),
        "--set api.port=1: no such setting; did you mean store.postgres.port or apiServer.http.port or apiServer.https.port or dpServer.port or monitoringAssignmentServer.port?",
    );
    refused(
        &sources("", &[], &["apiServer.http.port=x"]),
        "--set apiServer.http.port=x: apiServer.http.port: invalid type: string \"x\", expected u16",
    );
    assert!(load(&sources("", &[("KODIAK_ENVOY", "/bin/envoy")], &[])).is_ok());
}

#[test]
fn durations_have_the_format_of_policies() {
    let grace = |variables: &[(&str, &str)]| {
        load(&sources("", variables, &[])).map(|config| config.mesh_service.deletion_grace_period.to_string())
    };
    assert_eq!(grace(&[]).unwrap(), "1h0m0s");
    assert_eq!(grace(&[("KODIAK_MESH_SERVICE_DELETION_GRACE_PERIOD", "90s")]).unwrap(), "1m30s");
    assert!(grace(&[("KODIAK_MESH_SERVICE_DELETION_GRACE_PERIOD", "soon")]).is_err());
}

#[test]
fn loads_settings_of_services() {
    let variables = [
        ("KODIAK_MESH_SERVICE_DISABLE_GRACE_PERIOD", "5s"),
        ("KODIAK_MESH_SERVICE_CONNECTION_GRACE_PERIOD", "-1s"),
        ("KODIAK_MESH_SERVICE_GENERATE_FROM", "workload"),
        ("KODIAK_MESH_SERVICE_LABEL_PROPAGATION_ENABLED", "true"),
        ("KODIAK_MESH_SERVICE_LABEL_PROPAGATION_ALLOWED_LABEL_KEYS", "team, tier"),
        ("KODIAK_IPAM_MESH_SERVICE_CIDR", "10.7.0.0/16"),
    ];
    let settings = services(&load(&sources("", &variables, &[])).unwrap(), "east").unwrap();
    assert_eq!((settings.rules.zone.as_str(), settings.rules.source), ("east", Source::Workload));
    let seconds =
        [settings.rules.grace, settings.rules.disable_grace, settings.connection_grace].map(|it| it.as_secs());
    assert_eq!(seconds, [3600, 5, 0]);
    assert_eq!(settings.rules.propagation.unwrap().allowed.len(), 2);
    assert_eq!(settings.ranges.services.to_string(), "10.7.0.0/16");
    let usual = services(&Config::default(), "default").unwrap();
    assert_eq!(format!("{usual:?}"), format!("{:?}", ServiceSettings::default()));
}

#[test]
fn loads_settings_of_reachability() {
    let usual = Config::default().reachability;
    assert_eq!((usual.mode, usual.explain), (ReachabilityMode::Off, true));
    let variables = [("KODIAK_REACHABILITY_MODE", "shadow"), ("KODIAK_REACHABILITY_EXPLAIN", "false")];
    let changed = load(&sources("", &variables, &[])).unwrap().reachability;
    assert_eq!((changed.mode, changed.explain), (ReachabilityMode::Shadow, false));
}

#[test]
fn invalid_settings_of_services_are_rejected() {
    refused(
        &sources("ipam: {meshService: {cidr: 10.0.0.0}}\n", &[], &[]),
        "kodiak.yaml:1:28: ipam.meshService.cidr: \"10.0.0.0\" has no length: write an address and a length, as 241.0.0.0/8",
    );
    refused(
        &sources("", &[], &["meshService.labelPropagation.allowedLabelKeys=team,kuma.io/zone"]),
        "--set meshService.labelPropagation.allowedLabelKeys=team,kuma.io/zone: \
         meshService.labelPropagation.allowedLabelKeys: \"kuma.io/zone\" is set by the control plane: remove it",
    );
    let config = load(&sources("ipam: {meshService: {cidr: 242.0.0.0/8}}\n", &[], &[])).unwrap();
    assert!(services(&config, "east").is_err());
}

#[test]
fn zone_is_a_dns_label() {
    let longest = "z".repeat(63);
    for name in ["default", "east-1", &longest] {
        let config = load(&sources("", &[], &[&format!("multizone.zone.name={name}")])).unwrap();
        assert_eq!(config.multizone.zone.name, name);
    }
    let long = "z".repeat(64);
    for name in ["my_zone", "East", "a.b", "-a", "a-", &long] {
        let set = format!("multizone.zone.name={name}");
        refused(
            &sources("", &[], &[&set]),
            &format!(
                "--set {set}: multizone.zone.name: {name:?} is no name of a zone, which is part of hostnames and KRIs: \
                 write lower-case letters, digits and `-`, at most 63 characters, with a letter or digit at both ends"
            ),
        );
    }
}

#[test]
fn passwords_are_masked() {
    let config = load(&sources("", &[("KODIAK_STORE_POSTGRES_PASSWORD", "hunter2")], &[])).unwrap();
    assert_eq!(config.store.postgres.password.expose(), "hunter2");
    let shown = format!("{config:?}{}", serde_json::to_string(&config).unwrap());
    assert!(!shown.contains("hunter2") && shown.contains("*****"));
}
