//! Configuration of access loggers generated from confs.

use std::sync::Arc;

use kodiak_envoy::unpack;
use kodiak_model::Protocol;

use super::*;
use crate::Policy as _;
use crate::mesh_access_log::AccessLogs;
use crate::samples::{self, check, conf, for_all, from, http, route, rule, tcp, to_backend};
use crate::target::Backends;

const TIME: &str =
    "backends: [{type: File, file: {path: /dev/stdout, format: {type: Plain, plain: '[%START_TIME%]'}}}]";
const TO_PATH: &str = "backends: [{type: File, file: {path: /route, format: {type: Plain, plain: '%REQ(:PATH)%'}}}]";
const NONE: &str = "backends: []";

fn facts() -> ProxyFacts {
    let fact = |(fact, value): (ProxyFact, &str)| (fact, Arc::from(value));
    let all = [
        (ProxyFact::Service, "web"),
        (ProxyFact::Workload, "kri_wl_default_east__web_"),
        (ProxyFact::Zone, "east"),
        (ProxyFact::AccessLogPipe, "./kuma-al.sock"),
    ];
    all.into_iter().map(fact).collect()
}

/// Loggers of an outbound of a proxy with all facts.
fn to(destination: Destination<'_>, confs: &Confs, carrier: Carrier) -> Vec<AccessLog> {
    let (backends, facts) = (Backends::default(), facts());
    let names = BTreeMap::from([(Arc::from("hash"), Arc::from("kri_mhttpr_default___slow_"))]);
    let mut outbound =
        Outbound { destination, facts: &facts, route_names: &names, ..to_backend(Protocol::Http, carrier, &backends) };
    AccessLogs.outbound(confs, &mut outbound);
    of(outbound.carrier)
}

fn of(carrier: Carrier) -> Vec<AccessLog> {
    match carrier {
        Carrier::Http(http) => http.manager.access_log,
        Carrier::Tcp(tcp) => tcp.proxy.access_log,
    }
}

fn only(loggers: &[AccessLog]) -> &AccessLog {
    let [logger] = loggers else { panic!("{loggers:#?}") };
    logger
}

fn config<M: kodiak_envoy::TypeUrl>(logger: &AccessLog) -> M {
    let Some(access_log::ConfigType::TypedConfig(config)) = &logger.config_type else { panic!() };
    unpack(config).unwrap()
}

/// The format of a single line to a file.
fn plain(loggers: &[AccessLog]) -> String {
    let FileAccessLog { access_log_format, .. } = config(only(loggers));
    let Some(file_access_log::AccessLogFormat::LogFormat(lines)) = access_log_format else { panic!() };
    let json = kodiak_envoy::json::to_json(&lines).unwrap();
    json["textFormatSource"]["inlineString"].as_str().unwrap().to_owned()
}

fn filter(logger: &AccessLog) -> Option<String> {
    let json = kodiak_envoy::json::to_json(logger.filter.as_ref()?).unwrap();
    Some(json["extensionFilter"]["typedConfig"]["expression"].as_str().unwrap_or("metadata").to_owned())
}

#[test]
fn default_formats_have_source_and_destination_of_an_outbound() {
    let default = for_all("backends: [{type: File, file: {path: /tmp/log}}]");
    let requests = plain(&to(Destination::Service("backend"), &default, http(vec![route("")])));
    let own = "%CEL(xds.node.metadata['dataplane.address'])%";
    assert!(requests.starts_with(r#"[%START_TIME%] default "%REQ(:METHOD)%"#), "{requests}");
    assert!(requests.ends_with(&format!("\"web\" \"backend\" \"{own}\" \"%UPSTREAM_HOST%\"\n")), "{requests}");
    let connections = plain(&to(Destination::Outside, &default, tcp()));
    assert_eq!(
        connections,
        format!(
            "[%START_TIME%] %RESPONSE_FLAGS% default {own}(web)->%UPSTREAM_HOST%(external) took %DURATION%ms, sent \
             %BYTES_SENT% bytes, received: %BYTES_RECEIVED% bytes\n"
        )
    );
}

#[test]
fn inbound_logs_the_caller() {
    let default = "backends: [{type: File, file: {path: /tmp/log, format: {type: Plain, plain: '%KUMA_SOURCE_ADDRESS% %KUMA_SOURCE_SERVICE% %KUMA_DESTINATION_SERVICE% %KUMA_TRAFFIC_DIRECTION%'}}}]";
    let served = samples::inbound(&AccessLogs, &[from(default)], &http(vec![route("")]));
    let lines: Vec<_> = served.chains.into_iter().map(|chain| plain(&of(chain.carrier))).collect();
    assert_eq!(
        lines,
        [
            "%DOWNSTREAM_REMOTE_ADDRESS% unknown backend INBOUND\n",
            "%DOWNSTREAM_REMOTE_ADDRESS% %CEL(connection.uri_san_peer_certificate)% backend INBOUND\n",
        ]
    );
}

#[test]
fn all_placeholders_are_replaced_as_text() {
    let text = "%KUMA_MESH% %KUMA_ZONE% %KUMA_WORKLOAD% %KUMA_SOURCE_ADDRESS% %KUMA_TRAFFIC_DIRECTION% %%KUMA_MESH%%";
    let confs =
        for_all(&format!("backends: [{{type: File, file: {{path: /l, format: {{type: Plain, plain: '{text}'}}}}}}]"));
    let line = plain(&to(Destination::Resource("backend"), &confs, tcp()));
    let own = "%CEL(xds.node.metadata['dataplane.addressAndPort'])%";
    assert_eq!(line, format!("default east kri_wl_default_east__web_ {own} OUTBOUND %default%\n"));
}

#[test]
fn json_values_are_the_inside_of_json_strings() {
    let json = r#"[{key: Destination, value: "%KUMA_DESTINATION_SERVICE%"}, {key: said, value: 'a \"b\"'}]"#;
    let confs = for_all(&format!(
        "backends: [{{type: File, file: {{path: /l, format: {{type: Json, omitEmptyValues: true, json: {json}}}}}}}]"
    ));
    check(
        only(&to(Destination::Service("backend"), &confs, http(vec![]))),
        r#"
        name: envoy.access_loggers.file
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
          path: /l
          log_format: {omit_empty_values: true, json_format: {Destination: backend, said: 'a "b"'}}
        "#,
    );
}

#[test]
fn tcp_backend_logs_into_the_pipe_of_the_sidecar_process() {
    let confs = for_all(
        "backends: [{type: Tcp, tcp: {address: 'logs.example:5000', format: {type: Json, json: [{key: took, value: '%DURATION%'}]}}}, {type: Tcp, tcp: {address: 'logs.example:5000', format: {type: Plain, plain: '%DURATION%'}}}]",
    );
    let loggers = to(Destination::Service("backend"), &confs, tcp());
    check(
        &loggers[0],
        r#"
        name: envoy.access_loggers.file
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
          path: ./kuma-al.sock
          log_format: {json_format: {address: 'logs.example:5000', message: {took: '%DURATION%'}}}
        "#,
    );
    let FileAccessLog { access_log_format, .. } = config(&loggers[1]);
    let Some(file_access_log::AccessLogFormat::LogFormat(lines)) = access_log_format else { panic!() };
    check(&lines, r#"json_format: {address: 'logs.example:5000', message: "%DURATION%\n"}"#);
    // A sidecar process without the pipe.
    let carrier = samples::outbound(&AccessLogs, &confs, Protocol::Tcp, tcp());
    assert_eq!(carrier, tcp());
}

#[test]
fn open_telemetry_backend_has_a_collector_named_by_its_endpoint() {
    let text = "
    backends:
    - type: OpenTelemetry
      openTelemetry:
        endpoint: otel.example
        attributes: [{key: workload, value: '%KUMA_WORKLOAD%'}]
        body: {kvlistValue: {values: [{key: mesh, value: {stringValue: '%KUMA_MESH%'}}]}}
    - type: OpenTelemetry
      openTelemetry: {backendRef: {kind: MeshOpenTelemetryBackend, name: otel}}
    ";
    let loggers = to(Destination::Service("backend"), &for_all(text), http(vec![]));
    check(
        only(&loggers),
        r#"
        name: envoy.access_loggers.open_telemetry
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.access_loggers.open_telemetry.v3.OpenTelemetryAccessLogConfig
          grpc_service: {envoy_grpc: {cluster_name: "meshaccesslog:opentelemetry:otel.example:4317", authority: "otel.example:4317"}}
          log_name: MeshAccessLog
          resource_attributes:
            values:
            - {key: kuma.mesh, value: {string_value: default}}
            - {key: kuma.zone, value: {string_value: east}}
            - {key: kuma.workload, value: {string_value: kri_wl_default_east__web_}}
          attributes: {values: [{key: workload, value: {string_value: kri_wl_default_east__web_}}]}
          body: {kvlist_value: {values: [{key: mesh, value: {string_value: default}}]}}
        "#,
    );
    let collectors = AccessLogs.collectors(&conf(text));
    let [Collector { name, address, port, .. }] = collectors.as_slice() else { panic!("{collectors:?}") };
    assert_eq!((&**name, &**address, *port), ("meshaccesslog:opentelemetry:otel.example:4317", "otel.example", 4317));
}

#[test]
fn body_is_a_string_a_value_or_the_default_format() {
    for (body, expected) in [
        ("", "%UPSTREAM_HOST%"),
        ("body: '%KUMA_ZONE%',", "east"),
        ("body: {unknown: '%KUMA_ZONE% %'},", r#"{"unknown":"east %%"}"#),
    ] {
        let confs = for_all(&format!("backends: [{{type: OpenTelemetry, openTelemetry: {{{body} endpoint: otel}}}}]"));
        let loggers = to(Destination::Service("backend"), &confs, http(vec![]));
        let OpenTelemetryAccessLogConfig { body: Some(body), .. } = config(only(&loggers)) else { panic!() };
        let Some(any_value::Value::StringValue(text)) = body.value else { panic!("{body:?}") };
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn empty_list_of_backends_disables_logs() {
    let carrier = http(vec![route("")]);
    let confs = for_all(NONE);
    assert_eq!(samples::outbound(&AccessLogs, &confs, Protocol::Http, carrier.clone()), carrier);
    let served = samples::inbound(&AccessLogs, &[from(TIME), rule("[]", NONE)], &carrier);
    assert!(served.chains.iter().all(|chain| chain.carrier == carrier));
}

#[test]
fn requests_of_a_route_with_logs_of_its_own_are_logged_only_there() {
    let resource = Destination::Resource("backend");
    let loggers = to(resource, &for_all(TIME), http(vec![route("")]));
    assert_eq!(filter(only(&loggers)).as_deref(), Some("metadata"));
    let loggers = to(Destination::Service("backend"), &for_all(TIME), http(vec![route("")]));
    assert_eq!(filter(only(&loggers)), None);

    let routes = [("hash", TO_PATH), ("quiet", NONE)].map(|(name, text)| (Arc::from(name), conf(text)));
    let confs = Confs { routes: routes.into(), ..for_all(TIME) };
    let filters: Vec<_> = to(resource, &confs, http(vec![route("hash")])).iter().map(filter).collect();
    let others = r#"!has(xds.route_name) || !(xds.route_name in ["kri_mhttpr_default___slow_", "quiet"])"#;
    let own = r#"xds.route_name == "kri_mhttpr_default___slow_""#;
    assert_eq!(filters, [Some(others.to_owned()), Some(own.to_owned())]);
    assert_eq!(to(resource, &confs, tcp()).len(), 1);
}

#[test]
fn every_rule_logs_on_its_own() {
    let ids = "[{spiffeID: {type: Prefix, value: 'spiffe://default/web'}}, {spiffeID: {type: Exact, value: 'spiffe://default/\"'}, sni: {type: Exact, value: x.mesh}}]";
    let names = "[{sni: {type: Exact, value: x.mesh}}]";
    let entries = [from(TIME), rule(ids, TIME), rule("[]", TO_PATH), rule(names, TIME)];
    let served = samples::inbound(&AccessLogs, &entries, &tcp());
    assert!(served.inspects_tls);
    let [plain, mtls] = <[Chain; 2]>::try_from(served.chains).unwrap().map(|chain| of(chain.carrier));
    let sni = r#"connection.requested_server_name == "x.mesh""#;
    let uri = "connection.uri_san_peer_certificate";
    let one = format!(r#"(({uri} == "spiffe://default/web" || {uri}.startsWith("spiffe://default/web/")))"#);
    let other = format!(r#"({uri} == "spiffe://default/\"" && {sni})"#);
    assert_eq!(plain.iter().map(filter).collect::<Vec<_>>(), [None, None, Some(sni.to_owned())]);
    let expected = [None, Some(format!("{one} || {other}")), None, Some(sni.to_owned())];
    assert_eq!(mtls.iter().map(filter).collect::<Vec<_>>(), expected);
    let paths = mtls.iter().map(|logger| config::<FileAccessLog>(logger).path).collect::<Vec<_>>();
    assert_eq!(paths, ["/dev/stdout", "/dev/stdout", "/route", "/dev/stdout"]);
}

#[test]
fn empty_list_of_backends_removes_rules_of_lower_precedence_for_the_same_callers() {
    let ids = "[{spiffeID: {type: Exact, value: 'spiffe://default/web'}}]";
    let logged = |entries: &[Entry]| {
        let served = samples::inbound(&AccessLogs, entries, &tcp());
        let [_, mtls] = <[Chain; 2]>::try_from(served.chains).unwrap().map(|chain| of(chain.carrier));
        mtls.iter().map(|logger| filter(logger).is_some()).collect::<Vec<bool>>()
    };
    assert_eq!(logged(&[rule("[]", TIME), rule(ids, TIME), rule("[]", NONE)]), [true]);
    assert_eq!(logged(&[rule("[]", TIME), rule(ids, TIME), rule(ids, NONE)]), [false]);
    assert_eq!(logged(&[rule("[]", NONE), rule("[]", TIME)]), [false]);
}

#[test]
fn facts_are_those_that_lines_contain() {
    let needed = |text: &str| AccessLogs.proxy_facts(&conf(text)).into_iter().collect::<Vec<_>>();
    assert_eq!(needed(TIME), []);
    assert_eq!(needed("backends: [{type: File, file: {path: /l}}]"), [ProxyFact::Service]);
    let tcp = "backends: [{type: Tcp, tcp: {address: 'a:1', format: {type: Plain, plain: '%KUMA_ZONE%'}}}]";
    assert_eq!(needed(tcp), [ProxyFact::Zone, ProxyFact::AccessLogPipe]);
    let otel = "backends: [{type: OpenTelemetry, openTelemetry: {endpoint: a, body: x}}]";
    assert_eq!(needed(otel), [ProxyFact::Workload, ProxyFact::Zone]);
}
