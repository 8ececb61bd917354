//! Every way a token can be refused, and the ways it must not be.

mod forged;
mod noise;

use std::collections::BTreeMap;

use kodiak_crypto::RsaKey;

use super::*;
use crate::names::{TokenKind, user_signing_key};
use crate::testing::{DAY, Keys, key_pem, now, parts, signed, signing_key};
use crate::{SigningKey, VerificationKey, issue_dataplane, issue_user, issue_zone};

const RS256: &str = r#"{"typ":"JWT","alg":"RS256","kid":"1"}"#;

fn user() -> UserClaims {
    UserClaims { name: "jo".to_owned(), groups: vec!["ops".to_owned()] }
}

fn token() -> String {
    issue_user(&user(), &signing_key(1), DAY, now()).unwrap()
}

fn good_payload() -> String {
    let at = now().as_second();
    format!(r#"{{"Name":"jo","jti":"id","exp":{},"nbf":{at},"iat":{at}}}"#, at + 60)
}

/// Signed by key 1, so only what it says can be wrong.
fn with_header(header: &str) -> String {
    signed(header, &good_payload(), signing_key(1).encoding(), Algorithm::RS256)
}

fn with_payload(payload: &str) -> String {
    signed(RS256, payload, signing_key(1).encoding(), Algorithm::RS256)
}

fn check_user(token: &str) -> Result<Verified<UserClaims>, TokenError> {
    verify_user(token, &Keys::with(&[1]), now())
}

#[track_caller]
fn refused(token: &str, text: &str) {
    assert_eq!(check_user(token).unwrap_err().to_string(), text);
}

#[test]
fn every_kind_makes_the_round_trip() {
    let keys = Keys::with(&[1]);
    let dataplane = DataplaneClaims {
        name: "dp-1".to_owned(),
        mesh: "default".to_owned(),
        tags: BTreeMap::from([("kuma.io/service".to_owned(), vec!["web".to_owned(), "api".to_owned()])]),
        kind: "dataplane".to_owned(),
        workload: "web".to_owned(),
        labels: [("app".to_owned(), vec!["web".to_owned()])].into(),
    };
    let token = issue_dataplane(&dataplane, &signing_key(1), DAY, now()).unwrap();
    let verified = verify_dataplane(&token, &keys, now()).unwrap();
    assert_eq!(verified.claims, dataplane);
    assert_eq!(verified.expires, now() + DAY);
    assert_eq!(verified.jti, parts(&token).1["jti"]);

    let zone = ZoneClaims { zone: "east".to_owned(), scope: vec!["ingress".to_owned(), "egress".to_owned()] };
    let token = issue_zone(&zone, &signing_key(1), DAY, now()).unwrap();
    assert_eq!(verify_zone(&token, &keys, now()).unwrap().claims, zone);

    assert_eq!(check_user(&self::token()).unwrap().claims, user());
}

#[test]
fn a_token_of_another_kind_is_refused_even_if_they_share_a_key() {
    let (keys, key) = (Keys::with(&[1]), signing_key(1));
    let dataplane = issue_dataplane(&DataplaneClaims::default(), &key, DAY, now()).unwrap();
    let zone = issue_zone(&ZoneClaims::default(), &key, DAY, now()).unwrap();
    let user = token();
    let texts = [
        verify_dataplane(&zone, &keys, now()).unwrap_err().to_string(),
        verify_dataplane(&user, &keys, now()).unwrap_err().to_string(),
        verify_zone(&dataplane, &keys, now()).unwrap_err().to_string(),
        verify_zone(&user, &keys, now()).unwrap_err().to_string(),
        verify_user(&dataplane, &keys, now()).unwrap_err().to_string(),
        verify_user(&zone, &keys, now()).unwrap_err().to_string(),
    ];
    for (text, claim) in texts.iter().zip(["Zone", "Groups", "Name", "Name", "Mesh", "Zone"]) {
        let expected =
            format!("the token is of another kind, as its {claim} claim shows; generate one of the right kind");
        assert_eq!(*text, expected);
    }
}

#[test]
fn a_token_as_kuma_writes_it_is_read() {
    let at = now().as_second();
    let payload = format!(
        r#"{{"Name":"","Mesh":"default","Tags":null,"Type":"","Workload":"","exp":{},"nbf":{at},"iat":{at},"jti":"id"}}"#,
        at + 60
    );
    let verified = verify_dataplane(&with_payload(&payload), &Keys::with(&[1]), now()).unwrap();
    assert_eq!(verified.claims, DataplaneClaims { mesh: "default".to_owned(), ..DataplaneClaims::default() });
}

#[test]
fn time_is_exact_to_the_second() {
    let keys = Keys::with(&[1]);
    let token = token();
    let at = |seconds: i64| verify_user(&token, &keys, now() + jiff::SignedDuration::from_secs(seconds));
    assert!(at(-5).is_ok());
    assert!(at(0).is_ok());
    assert!(at(86399).is_ok());
    let early = at(-6).unwrap_err().to_string();
    assert_eq!(early, "the token is not valid before 2026-08-01T11:59:55Z; check the clocks, or wait");
    let expired = "the token expired at 2026-08-02T12:00:00Z; generate a new one";
    assert_eq!(at(86400).unwrap_err().to_string(), expired);
    assert_eq!(at(86401).unwrap_err().to_string(), expired);
}

#[test]
fn issued_in_the_future_is_not_yet_valid() {
    let at = now().as_second();
    let payload = format!(r#"{{"jti":"id","exp":{},"iat":{}}}"#, at + 60, at + 1);
    refused(&with_payload(&payload), "the token is not valid before 2026-08-01T12:00:01Z; check the clocks, or wait");
}

#[test]
fn a_revoked_token_is_refused() {
    let token = token();
    let mut keys = Keys::with(&[1]);
    keys.revoked.insert("another".to_owned());
    let jti = verify_user(&token, &keys, now()).unwrap().jti;
    keys.revoked.insert(jti);
    let error = verify_user(&token, &keys, now()).unwrap_err();
    assert_eq!(error.to_string(), "the token is revoked; generate a new one");
}

#[test]
fn old_keys_still_verify_after_a_rotation() {
    let keys = Keys::with(&[1, 2]);
    let names = [user_signing_key(1), user_signing_key(2)];
    let newest = TokenKind::User.newest(names.iter().map(crate::names::SecretName::name)).unwrap();
    let new = issue_user(&user(), &signing_key(newest), DAY, now()).unwrap();
    assert_eq!(parts(&new).0["kid"], "2");
    assert!(verify_user(&token(), &keys, now()).is_ok());
    assert!(verify_user(&new, &keys, now()).is_ok());
    let error = verify_user(&token(), &Keys::with(&[2]), now()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no signing key with KID 1. GlobalSecret of name \"user-token-signing-key-1\" is not found. \
         If signing key was rotated, regenerate the token"
    );
}

#[test]
fn a_missing_key_of_a_mesh_is_named() {
    let error = TokenKind::Dataplane { mesh: "demo" }.key_not_found(&KeyId::serial(4));
    assert_eq!(
        error.to_string(),
        "there is no signing key with KID 4. Secret of name \"dataplane-token-signing-key-demo-4\" in mesh \"demo\" \
         is not found. If signing key was rotated, regenerate the token"
    );
}

#[test]
fn public_keys_alone_verify() {
    let kid = KeyId::parse("offline").unwrap();
    let signing = SigningKey::from_bytes(kid.clone(), key_pem(0).as_bytes()).unwrap();
    let public = RsaKey::from_bytes(key_pem(0).as_bytes()).unwrap().public_pem().unwrap();
    let mut keys = Keys::default();
    keys.keys.insert(kid.clone(), VerificationKey::from_public_bytes(&kid, public.as_bytes()).unwrap());
    let token = issue_user(&user(), &signing, DAY, now()).unwrap();
    assert!(verify_user(&token, &keys, now()).is_ok());
    keys.keys.insert(kid.clone(), VerificationKey::from_private_bytes(&kid, key_pem(0).as_bytes()).unwrap());
    assert!(verify_user(&token, &keys, now()).is_ok());
}

#[test]
fn headers_that_are_not_ours_are_refused() {
    let cases = [
        (r#"{"alg":"RS256"}"#, "JWT token must have kid header"),
        (r#"{"alg":"RS256","kid":null}"#, "JWT token must have kid header"),
        (r#"{"alg":"RS256","kid":1}"#, "the key id must be 1 to 128 letters, digits, '-', '_' or '.'"),
        (r#"{"alg":"RS256","kid":""}"#, "the key id must be 1 to 128 letters, digits, '-', '_' or '.'"),
        (r#"{"alg":"RS256","kid":"../1"}"#, "the key id must be 1 to 128 letters, digits, '-', '_' or '.'"),
        (
            r#"{"alg":"RS256","kid":"1","crit":["b64"],"b64":false}"#,
            "the token has a critical header that is not understood; regenerate the token",
        ),
        (r#"{"kid":"1"}"#, "the token is not a JWT; generate a new one"),
        (r#"["RS256"]"#, "the token is not a JWT; generate a new one"),
        ("", "the token is not a JWT; generate a new one"),
    ];
    for (header, text) in cases {
        refused(&with_header(header), text);
    }
}

#[test]
fn claims_that_are_missing_or_malformed_are_refused() {
    let at = now().as_second() + 60;
    let cases = [
        (r#"{"jti":"id"}"#.to_owned(), "the token has no exp claim; regenerate the token"),
        (r#"{"jti":"id","exp":null}"#.to_owned(), "the token has no exp claim; regenerate the token"),
        (r#"{"jti":"id","exp":"never"}"#.to_owned(), "the exp claim of the token is not a time; regenerate the token"),
        (
            format!(r#"{{"jti":"id","exp":{at},"nbf":true}}"#),
            "the nbf claim of the token is not a time; regenerate the token",
        ),
        (format!(r#"{{"exp":{at}}}"#), "the token has no jti claim; regenerate the token"),
        (format!(r#"{{"exp":{at},"jti":""}}"#), "the token has no jti claim; regenerate the token"),
        (
            format!(r#"{{"exp":{at},"jti":"id","Name":"a","NAME":"b"}}"#),
            "the token has more than one Name claim; regenerate the token",
        ),
        (
            format!(r#"{{"exp":{at},"jti":"id","Name":{{}}}}"#),
            "the claims of the token cannot be read; regenerate the token",
        ),
        ("[]".to_owned(), "the token is not a JWT; generate a new one"),
        ("{".to_owned(), "the token is not a JWT; generate a new one"),
    ];
    for (payload, text) in cases {
        refused(&with_payload(&payload), text);
    }
}

#[test]
fn what_is_no_token_is_refused() {
    let text = "the token is not a JWT; generate a new one";
    let token = token();
    for bad in ["", ".", "..", "...", "hello", "a.b.c", "Bearer x", &format!("Bearer {token}"), &format!("{token}\n")] {
        refused(bad, text);
    }
    refused(&format!("{token}.{token}"), text);
    refused(token.rsplit_once('.').unwrap().0, text);
}

/// A source that must not be asked.
struct Untouchable;

impl KeySource for Untouchable {
    fn key(&self, _: &KeyId) -> Result<crate::VerificationKey, TokenError> {
        panic!("asked for a key");
    }

    fn is_revoked(&self, _: &str) -> bool {
        panic!("asked for revocations");
    }
}

#[test]
fn a_long_token_is_refused_before_it_is_looked_at() {
    let long = format!("{}{}", token(), "x".repeat(MAX_TOKEN_BYTES));
    let error = verify_user(&long, &Untouchable, now()).unwrap_err();
    assert_eq!(error.to_string(), "the token is longer than 16384 bytes; check that the right file was sent");
    assert!(!matches!(check_user(&"x".repeat(MAX_TOKEN_BYTES)), Err(TokenError::TooLong)));
}
