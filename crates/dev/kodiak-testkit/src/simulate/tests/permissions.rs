//! Access control: TLS, and the rules of both RBAC filters.

use super::*;

const WEB: &str = "spiffe://default/web";
const DEV: &str = "kuma://env/dev";

/// An inbound with TLS for callers of the mesh `default`, and one filter with these rules before the last.
fn inbound(rbac: &str) -> SimulatedProxy {
    let rbac = indented(rbac, 8);
    proxy(
        &format!(
            r#"
listeners:
- name: inbound
  address: {{socket_address: {{address: 10.0.0.1, port_value: 80}}}}
  listener_filters: [{{name: tls, typed_config: {{"@type": TYPE.filters.listener.tls_inspector.v3.TlsInspector}}}}]
  filter_chains:
  - transport_socket:
      name: tls
      typed_config:
        "@type": TYPE.transport_sockets.tls.v3.DownstreamTlsContext
        require_client_certificate: true
        common_tls_context:
          combined_validation_context:
            default_validation_context:
              match_typed_subject_alt_names: [{{san_type: URI, matcher: {{prefix: "spiffe://default/"}}}}]
    filters:
    - name: rbac
      typed_config:
        "@type": TYPE.filters.network.rbac.v3.RBAC
        stat_prefix: x
{rbac}
    - {TCP}
clusters: [{A}]
"#
        ),
        &[],
    )
}

const TCP: &str =
    r#"{name: tcp, typed_config: {"@type": TYPE.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: x, cluster: a}}"#;

fn ask(rules: &str, connection: &Connection) -> Result<Sent, Refusal> {
    inbound(rules).inbound("10.0.0.1", 80, &Request::bytes(), connection)
}

fn allows(principal: &str, uris: &[&str]) -> bool {
    let rules = format!("rules: {{policies: {{p: {{permissions: [{{any: true}}], principals: [{principal}]}}}}}}");
    let found = ask(&rules, &tls(uris, "", &[]));
    let denied = Refusal::Denied { filter: "rbac".to_owned(), policy: None, status: None };
    assert!(found.is_ok() || found == Err(denied), "{found:?}");
    found.is_ok()
}

#[test]
fn each_uri_is_matched_separately() {
    let name = |matcher: &str| format!("{{authenticated: {{principal_name: {matcher}}}}}");
    let exact = name(&format!("{{exact: '{WEB}'}}"));
    for (principal, expected) in [
        ("{any: true}".to_owned(), true),
        ("{any: false}".to_owned(), false),
        ("{authenticated: {}}".to_owned(), true),
        (exact.clone(), true),
        (name("{exact: 'spiffe://default/we'}"), false),
        (name("{prefix: 'kuma://'}"), true),
        (name("{suffix: '/dev'}"), true),
        (name("{contains: 'env'}"), true),
        (name("{safe_regex: {regex: 'kuma://env/[^/]+'}}"), true),
        (name("{safe_regex: {regex: 'kuma://env'}}"), false),
        (format!("{{not_id: {exact}}}"), false),
        (format!("{{and_ids: {{ids: [{exact}, {}]}}}}", name("{prefix: 'kuma://'}")), true),
        (format!("{{and_ids: {{ids: [{exact}, {}]}}}}", name("{prefix: 'other'}")), false),
        (format!("{{or_ids: {{ids: [{}, {exact}]}}}}", name("{prefix: 'other'}")), true),
    ] {
        assert_eq!(allows(&principal, &[WEB, DEV]), expected, "{principal}");
    }
}

#[test]
fn permissions_and_principals_must_both_match() {
    let rules = "rules: {action: DENY, policies: {\
                 a: {permissions: [{requested_server_name: {exact: a}}], principals: [{any: true}]}, \
                 b: {permissions: [{destination_port: 81}, {not_rule: {destination_ip: \
                 {address_prefix: 10.0.0.0, prefix_len: 8}}}], principals: [{any: true}]}}}";
    let denied = Refusal::Denied { filter: "rbac".to_owned(), policy: Some("a".to_owned()), status: None };
    assert_eq!(ask(rules, &tls(&[WEB], "a", &[])), Err(denied));
    assert!(ask(rules, &tls(&[WEB], "b", &[])).is_ok());
}

#[test]
fn shadow_rules_are_only_recorded() {
    let rules = "shadow_rules: {action: DENY, policies: {p: {permissions: [{any: true}], principals: [{any: true}]}}}";
    let sent = ask(rules, &tls(&[WEB], "", &[])).unwrap();
    let [shadow] = sent.shadows.as_slice() else { panic!("{sent:?}") };
    assert_eq!((shadow.allowed, shadow.policy.as_deref()), (false, Some("p")));
    assert_eq!(sent.forwarded().unwrap().cluster, "a");
}

#[test]
fn callers_without_a_valid_certificate_are_rejected() {
    let reason = |connection: &Connection| match ask("rules: {action: DENY}", connection) {
        Err(Refusal::Handshake { with, reason }) if with == "inbound" => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(reason(&plain()), "the caller does not speak TLS");
    assert_eq!(reason(&tls(&[], "", &[])), "the caller has no certificate");
    assert!(reason(&tls(&["spiffe://other/web"], "", &[])).contains("none of"));
    assert!(ask("rules: {action: DENY}", &tls(&["spiffe://other/web", WEB], "", &[])).is_ok());
}

#[test]
fn http_denials_are_403_and_plaintext_callers_have_no_identity() {
    let filter = r#"
- name: rbac
  typed_config:
    "@type": TYPE.filters.http.rbac.v3.RBAC
    rules: {policies: {p: {permissions: [{url_path: {path: {prefix: /open}}}], principals: [{any: true}]}}}
- name: second
  typed_config:
    "@type": TYPE.filters.http.rbac.v3.RBAC
    rules: {action: DENY, policies: {p: {permissions: [{any: true}], principals: [{authenticated: {}}]}}}
"#;
    let proxy = http(filter, "- {match: {prefix: /}, route: {cluster: a}}");
    let ask = |path| proxy.inbound("10.0.0.1", 80, &get(path), &plain());
    assert!(ask("/open/door?x").is_ok());
    let denied = Refusal::Denied { filter: "rbac".to_owned(), policy: None, status: Some(403) };
    assert_eq!(ask("/closed?/open"), Err(denied));
}

#[test]
fn unsupported_rules_are_reported() {
    let rules =
        "rules: {policies: {p: {permissions: [{any: true}], principals: [{remote_ip: {address_prefix: 10.0.0.0}}]}}}";
    unsupported(ask(rules, &tls(&[WEB], "", &[])), "the principal");
    let rules = "matcher: {on_no_match: {matcher: {on_no_match: {matcher: {}}}}}";
    unsupported(ask(rules, &tls(&[WEB], "", &[])), "rules as a matcher");
}
