//! The table is complete and correct, and settings of Kuma are used from files and variables.

use crate::config::{Config, FromKuma, Loaded, ReachabilityMode, Sources, StoreType, WithoutEffect, load};

use super::{KumaSetting, Meaning, SETTINGS, by_path, by_variable, is_of_the_control_plane};

/// Settings of Kuma 2.14 and their variables.
const KUMA: &str = include_str!("settings_of_kuma.txt");

fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    KUMA.lines().filter(|line| !line.is_empty()).map(|line| line.split_once(' ').unwrap())
}

fn sources(file: &str, environment: &[(&str, &str)], flags: &[&str]) -> Sources {
    Sources {
        file: Some(("kuma.yaml".to_owned(), file.to_owned())),
        environment: environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
    }
}

fn loaded(file: &str, environment: &[(&str, &str)]) -> Loaded {
    load(&sources(file, environment, &[])).unwrap()
}

#[track_caller]
fn refused(file: &str, environment: &[(&str, &str)], expected: &str) {
    assert_eq!(load(&sources(file, environment, &[])).unwrap_err().to_string(), expected);
}

#[test]
fn table_has_every_setting_of_kuma_with_its_variable() {
    for (path, variable) in rows() {
        let by_name = by_variable(variable).unwrap_or_else(|| panic!("{variable} is not in the table"));
        assert!(path.starts_with(by_name.section_or_path()), "{variable} is {}, not {path}", by_name.path);
        let covered = |setting: &KumaSetting| {
            let section = setting.path.strip_suffix('*');
            setting.path == path || section.is_some_and(|section| path.starts_with(section))
        };
        assert!(SETTINGS.iter().any(covered), "{path} is not in the table");
        assert!(is_of_the_control_plane(variable), "{variable}");
    }
}

#[test]
fn rows_agree_with_our_settings() {
    let defaults = serde_json::to_value(Config::default()).unwrap();
    let ours = |path: &str| defaults.pointer(&format!("/{}", path.replace('.', "/")));
    for setting in SETTINGS {
        match setting.meaning {
            Meaning::Same => assert!(ours(setting.path).is_some(), "{} is no setting of ours", setting.path),
            Meaning::As(path, _) => assert!(ours(path).is_some(), "{path} is no setting of ours"),
            Meaning::Only(..) | Meaning::Ignored(_) => {
                assert!(ours(setting.section_or_path()).is_none(), "{} is a setting of ours: use it", setting.path);
            }
        }
        let same_path = |other: &&KumaSetting| other.path == setting.path;
        assert_eq!(SETTINGS.iter().filter(same_path).count(), 1, "{}", setting.path);
    }
}

#[test]
fn settings_of_kuma_are_used_from_a_file() {
    let file = "\
environment: universal
mode: standalone
store: {type: memory}
apiServer: {http: {interface: 0.0.0.0}, idleTimeout: 3m, https: {tlsCertFile: , requireClientCert: false}}
dpServer: {authn: {dpProxy: {type: '', dpToken: {enableIssuer: false, validator: {publicKeys: []}}}}}
xdsServer: {dataplaneDeregistrationDelay: 20s}
runtime: {universal: {dataplaneCleanupAge: 24h}, kubernetes: {injector: {cniEnabled: true}}}
experimental: {autoReachableServices: true}
multizone: {zone: {name: east, kds: {refreshInterval: 1s}}}
ipam: {allocationInterval: 5s}
";
    let Loaded { config, from_kuma, without_effect } = loaded(file, &[]);
    assert_eq!(config.store.store_type, StoreType::Memory);
    assert!(config.api_server.http.interface.is_unspecified());
    assert_eq!(config.api_server.limits.idle_timeout.to_string(), "3m0s");
    assert!(!config.dp_server.authn.enable_dataplane_token_issuer);
    assert_eq!(config.xds_server.dataplane_deregistration_delay_seconds, 20);
    assert_eq!(config.xds_server.dataplane_cleanup_age_hours, 24);
    assert_eq!(config.reachability.mode, ReachabilityMode::On);
    assert_eq!(config.multizone.zone.name, "east");
    let delay = FromKuma {
        setting: "xdsServer.dataplaneDeregistrationDelaySeconds".to_owned(),
        source: "xdsServer.dataplaneDeregistrationDelay in kuma.yaml:6:43".to_owned(),
    };
    assert!(from_kuma.contains(&delay), "{from_kuma:?}");
    let ignored: Vec<_> = without_effect.iter().map(|it| (it.setting.as_str(), it.why)).collect();
    assert_eq!(
        ignored,
        [
            ("runtime.kubernetes", "not supported: Kubernetes"),
            ("multizone.zone.kds", "not supported: several zones"),
            ("ipam.allocationInterval", "not needed: changes are event-driven"),
        ]
    );
}

#[test]
fn variables_of_kuma_are_used() {
    let Loaded { config, from_kuma, without_effect } = loaded(
        "",
        &[
            ("KUMA_XDS_DATAPLANE_DEREGISTRATION_DELAY", "1m"),
            ("KUMA_DNS_SERVICE_SERVICE_VIP_PORT", "80"),
            ("KUMA_ACCESS_STATIC_GET_CONFIG_DUMP_GROUPS", ""),
            ("KUMA_STORE_POSTGRES_PASSWORD", "hunter2"),
            ("KUMA_DP_SERVER_HDS_REFRESH_INTERVAL", "1s"),
            ("KUMA_INJECTOR_INIT_CONTAINER_IMAGE", "x"),
            // Of kuma-dp.
            ("KUMA_CONTROL_PLANE_URL", "https://localhost:5678"),
            ("KUMA_DATAPLANE_DRAIN_TIME", "30s"),
            ("KUMA_DNS_PROXY_PORT", "1"),
            ("KUMA_READINESS_PORT", "1"),
        ],
    );
    assert_eq!(config.xds_server.dataplane_deregistration_delay_seconds, 60);
    assert_eq!(config.access.lists.view_config_dump.groups, [""; 0]);
    assert_eq!(config.store.postgres.password.expose(), "hunter2");
    assert!(!format!("{from_kuma:?}").contains("hunter2"));
    let events = WithoutEffect {
        setting: "KUMA_DP_SERVER_HDS_REFRESH_INTERVAL".to_owned(),
        why: "not needed: changes are event-driven",
    };
    assert!(without_effect.contains(&events) && without_effect.len() == 2, "{without_effect:?}");
}

#[test]
fn precedence_is_file_kuma_kodiak_flags() {
    let file = "apiServer: {http: {port: 1}}\n";
    let port = |environment: &[(&str, &str)], flags: &[&str]| {
        load(&sources(file, environment, flags)).unwrap().config.api_server.http.port
    };
    let (kuma, kodiak) = (("KUMA_API_SERVER_HTTP_PORT", "2"), ("KODIAK_API_SERVER_HTTP_PORT", "3"));
    assert_eq!(port(&[], &[]), 1);
    assert_eq!(port(&[kuma], &[]), 2);
    assert_eq!(port(&[kodiak, kuma], &[]), 3);
    assert_eq!(port(&[kodiak, kuma], &["apiServer.http.port=4"]), 4);
    assert_eq!(loaded(file, &[kodiak, kuma]).from_kuma, [], "the variable of Kodiak set it");
}

#[test]
fn settings_that_would_be_less_secure_are_refused() {
    refused(
        "mode: global\n",
        &[],
        "kuma.yaml:1:7: mode: \"global\" is not supported: a control plane serves one zone, and there is no global one; \
         remove it, or set it to zone or standalone",
    );
    refused(
        "",
        &[("KUMA_ENVIRONMENT", "kubernetes")],
        "KUMA_ENVIRONMENT: \"kubernetes\" is not supported: Kodiak runs on Universal, not on Kubernetes; remove it, or \
         set it to universal",
    );
    for (path, value) in [
        ("apiServer.https.requireClientCert", "true"),
        ("apiServer.https.tlsMinVersion", "TLSv1_3"),
        ("apiServer.https.tlsCertFile", "/cert"),
        ("apiServer.authn.type", "adminClientCerts"),
        ("apiServer.authn.tokens.validator.useSecrets", "false"),
        ("apiServer.corsAllowedDomains", "https://a,.*"),
        ("diagnostics.tlsEnabled", "true"),
        ("dpServer.authn.dpProxy.type", "serviceAccountToken"),
        ("dpServer.tlsCipherSuites", "TLS_AES_256_GCM_SHA384"),
        ("multizone.zone.globalAddress", "grpcs://global:5685"),
        ("store.postgres.tls.mode", "verifyNone"),
        ("store.postgres.tls.certPath", "/cert"),
        ("store.type", "kubernetes"),
        ("access.type", "custom"),
    ] {
        let variable = by_path(path).unwrap().variable();
        let error = load(&sources("", &[(&*variable, value)], &[])).unwrap_err().to_string();
        assert!(error.starts_with(&*variable) && error.contains("not supported"), "{error}");
    }
}

#[test]
fn unknown_settings_are_errors_with_the_nearest_name() {
    refused(
        "runtime: {universal: {dataplaneCleanupAg: 1h}}\n",
        &[],
        "kuma.yaml:1:43: runtime.universal.dataplaneCleanupAg: no such setting; did you mean \
         runtime.universal.dataplaneCleanupAge?",
    );
    refused(
        "",
        &[("KUMA_STORE_TPYE", "memory")],
        "KUMA_STORE_TPYE: Kuma 2.14 has no such setting; did you mean KUMA_STORE_TYPE?",
    );
    refused(
        "xdsServer: {dataplaneDeregistrationDelay: 1500ms}\n",
        &[],
        "kuma.yaml:1:43: xdsServer.dataplaneDeregistrationDelay: \"1500ms\" must be a number of whole seconds, such as 1s",
    );
    refused(
        "xdsServer: {dataplaneDeregistrationDelay: 1s, dataplaneDeregistrationDelaySeconds: 2}\n",
        &[],
        "kuma.yaml:1:43: xdsServer.dataplaneDeregistrationDelay: xdsServer.dataplaneDeregistrationDelaySeconds is in the \
         file, too; remove one of them",
    );
    refused("apiServer: 5\n", &[], "kuma.yaml:1:12: apiServer: must be a section with settings, not 5");
}
