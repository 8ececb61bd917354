//! Tokens of an attacker: changed ones, ones of other keys, and every trick with the algorithm.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey};
use kodiak_crypto::RsaKey;

use super::{RS256, check_user, good_payload, refused, token, with_header};
use crate::testing::{Keys, key_pem, message as signed_part, now, signed, signing_key};
use crate::{TokenError, verify_user};

#[test]
fn what_was_changed_after_signing_is_refused() {
    let text = "the token was not signed by key 1. If the control plane was set up anew, regenerate the token";
    let token = token();
    let (message, signature) = token.rsplit_once('.').unwrap();
    let (header, payload) = message.split_once('.').unwrap();
    let admin = good_payload().replace("jo", "mesh-system:admin");
    let admin = signed_part(RS256, &admin);
    // Another payload, another header that means the same, another signature, none at all, and another key's.
    refused(&format!("{admin}.{signature}"), text);
    let spaced = URL_SAFE_NO_PAD.encode(RS256.replace(',', ", "));
    refused(&format!("{spaced}.{payload}.{signature}"), text);
    refused(&format!("{header}.{payload}.{}", URL_SAFE_NO_PAD.encode([7; 256])), text);
    refused(&format!("{header}.{payload}."), text);
    refused(&signed(RS256, &good_payload(), signing_key(2).encoding(), Algorithm::RS256), text);
    // A valid signature of the right key, by an algorithm that the header does not name.
    refused(&signed(RS256, &good_payload(), signing_key(1).encoding(), Algorithm::PS256), text);
    refused(&signed(RS256, &good_payload(), signing_key(1).encoding(), Algorithm::RS512), text);
}

#[test]
fn the_kid_of_another_key_does_not_help() {
    let keys = Keys::with(&[1, 2]);
    let header = RS256.replace(r#""1""#, r#""2""#);
    let token = signed(&header, &good_payload(), signing_key(1).encoding(), Algorithm::RS256);
    assert!(matches!(verify_user(&token, &keys, now()), Err(TokenError::Signature(kid)) if kid.as_str() == "2"));
}

#[test]
fn no_algorithm_but_rs256_is_accepted() {
    let text = "the token is not signed with RS256, the only algorithm accepted; regenerate the token";
    for alg in [r#""none""#, r#""None""#, r#""""#, r#""rs256""#, "null", "256", r#"["RS256"]"#] {
        let header = format!(r#"{{"alg":{alg},"kid":"1"}}"#);
        refused(&format!("{}.", signed_part(&header, &good_payload())), text);
        refused(&with_header(&header), text);
    }
    // The public key as the secret of an HMAC, in every form an attacker could have it.
    let key = RsaKey::from_bytes(key_pem(1).as_bytes()).unwrap();
    let pem = key.public_pem().unwrap();
    for (name, algorithm) in [("HS256", Algorithm::HS256), ("HS384", Algorithm::HS384), ("HS512", Algorithm::HS512)] {
        for secret in [pem.as_bytes(), pem.trim_end().as_bytes(), key.public().pkcs1_der(), b""] {
            let secret = EncodingKey::from_secret(secret);
            for header in [format!(r#"{{"alg":"{name}","kid":"1"}}"#), format!(r#"{{"alg":"{name}","kid":"0"}}"#)] {
                refused(&signed(&header, &good_payload(), &secret, algorithm), text);
            }
            // And with a header that lies about it.
            assert!(check_user(&signed(RS256, &good_payload(), &secret, algorithm)).is_err());
        }
    }
    // Good signatures of our own key by other algorithms of its family.
    for (name, algorithm) in [("RS384", Algorithm::RS384), ("RS512", Algorithm::RS512), ("PS256", Algorithm::PS256)] {
        let header = format!(r#"{{"alg":"{name}","kid":"1"}}"#);
        refused(&signed(&header, &good_payload(), signing_key(1).encoding(), algorithm), text);
    }
}
