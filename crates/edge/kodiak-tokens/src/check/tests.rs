//! Every mismatch of a token and a Dataplane, with the text that users see.

use super::*;

fn tags<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn claims(edit: impl FnOnce(&mut DataplaneClaims)) -> DataplaneClaims {
    let mut claims = DataplaneClaims::default();
    edit(&mut claims);
    claims
}

fn with_tags<const N: usize>(allowed: [(&str, &[&str]); N]) -> DataplaneClaims {
    let own = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    claims(|claims| claims.tags = allowed.map(|(key, values)| (key.to_owned(), own(values))).into())
}

/// Checks the claims against `dp-1` of mesh `default`, with two inbounds and the given workload.
#[track_caller]
fn check_with(claims: &DataplaneClaims, workload: Option<&str>, expected: &str) {
    let web = tags([("kuma.io/service", "web"), ("version", "1")]);
    let api = tags([("kuma.io/service", "web-api")]);
    let mut labels = tags([("app", "payments")]);
    labels.extend(workload.map(|workload| ("kuma.io/workload".to_owned(), workload.to_owned())));
    let proxy = ProxyFacts { name: "dp-1", mesh: "default", tags: &[&web, &api], labels: &labels };
    assert_eq!(check_dataplane(claims, &proxy).err().unwrap_or_default(), expected);
}

#[track_caller]
fn check(claims: &DataplaneClaims, expected: &str) {
    check_with(claims, None, expected);
}

#[test]
fn unbound_token_is_valid_for_any_proxy() {
    check(&DataplaneClaims::default(), "");
    check(&claims(|claims| claims.kind = "ingress".to_owned()), "");
}

#[test]
fn name_and_mesh_must_match() {
    check(&claims(|claims| claims.name = "dp-1".to_owned()), "");
    check(&claims(|claims| claims.mesh = "default".to_owned()), "");
    let other = claims(|claims| claims.name = "dp-2".to_owned());
    check(&other, "proxy name from requestor: dp-1 is different than in token: dp-2");
    let other = claims(|claims| claims.mesh = "demo".to_owned());
    check(&other, "proxy mesh from requestor: default is different than in token: demo");
}

#[test]
fn every_value_of_a_tag_must_be_allowed() {
    check(&with_tags([("version", &["1", "2"])]), "");
    check(&with_tags([("kuma.io/service", &["web", "web-api"]), ("version", &["1"])]), "");
    check(&with_tags([("kuma.io/zone", &["east"])]), r#"dataplane has no tag "kuma.io/zone" required by the token"#);
    check(
        &with_tags([("kuma.io/service", &["web"])]),
        "dataplane contains tag \"kuma.io/service\" with value \"web-api\" which is not allowed with this token. \
         Allowed values in token are [\"web\"]",
    );
    check(
        &with_tags([("version", &["3", "2"])]),
        "dataplane contains tag \"version\" with value \"1\" which is not allowed with this token. \
         Allowed values in token are [\"2\" \"3\"]",
    );
    check(
        &with_tags([("version", &[])]),
        "dataplane contains tag \"version\" with value \"1\" which is not allowed with this token. \
         Allowed values in token are []",
    );
}

#[test]
fn bound_label_must_exist_with_an_allowed_value() {
    let bound = |label: &str, values: &[&str]| {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        claims(|claims| claims.labels = [(label.to_owned(), values)].into())
    };
    check(&bound("app", &["payments"]), "");
    check(&bound("app", &["web", "payments"]), "");
    check(
        &bound("app", &["web"]),
        "dataplane has label \"app\" with value \"payments\" which is not allowed with this token. \
         Allowed values in token are [\"web\"]",
    );
    check(&bound("team", &["a"]), r#"dataplane has no label "team" required by the token"#);
    check_with(&bound("kuma.io/workload", &["b"]), Some("b"), "");
    check_with(
        &bound("kuma.io/workload", &["b"]),
        None,
        r#"dataplane has no label "kuma.io/workload" required by the token"#,
    );
}

#[test]
fn workload_must_match_the_token() {
    let bound = claims(|claims| claims.workload = "b".to_owned());
    check_with(&bound, Some("b"), "");
    check_with(
        &bound,
        Some("a"),
        r#"dataplane workload "a" is not allowed with this token. Allowed workload in token is "b""#,
    );
    check_with(&bound, None, "dataplane has no workload label required by the token");
    check_with(&DataplaneClaims::default(), Some("x"), "");
}

#[test]
fn zone_tokens_are_bound_to_scope_and_zone() {
    let check = |zone: &str, scope: &[&str], expected: &str| {
        let scope = scope.iter().map(|scope| (*scope).to_owned()).collect();
        let claims = ZoneClaims { zone: zone.to_owned(), scope };
        let result = check_zone(&claims, &ZoneFacts { zone: "east", scope: ZoneScope::Ingress });
        assert_eq!(result.err().unwrap_or_default(), expected);
    };
    check("", &["ingress"], "");
    check("east", &["egress", "ingress"], "");
    check("west", &["ingress"], "zone from requestor: east is different than in token: west");
    let text = "token cannot be used to authenticate zone entity (ingress is out of token's scope: ";
    check("east", &[], &format!("{text}[])"));
    check("east", &["egress", "cp"], &format!("{text}[egress cp])"));
}
