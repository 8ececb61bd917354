//! New tokens: claims, signed.

use std::time::Duration;

use jiff::Timestamp;
use jsonwebtoken::{Algorithm, Header, encode};
use uuid::Uuid;

use crate::claims::{Claims, DataplaneClaims, Payload, Registered, UserClaims, ZoneClaims};
use crate::keys::SigningKey;
use crate::{MAX_VALID_FOR, TokenError};

/// Tokens are valid a little before they were made, for verifiers whose clock is behind.
const CLOCK_SKEW: Duration = Duration::from_secs(5);

pub fn issue_dataplane(
    claims: &DataplaneClaims,
    key: &SigningKey,
    valid_for: Duration,
    now: Timestamp,
) -> Result<String, TokenError> {
    issue(claims, key, valid_for, now)
}

pub fn issue_zone(
    claims: &ZoneClaims,
    key: &SigningKey,
    valid_for: Duration,
    now: Timestamp,
) -> Result<String, TokenError> {
    issue(claims, key, valid_for, now)
}

pub fn issue_user(
    claims: &UserClaims,
    key: &SigningKey,
    valid_for: Duration,
    now: Timestamp,
) -> Result<String, TokenError> {
    issue(claims, key, valid_for, now)
}

fn issue<C: Claims>(claims: &C, key: &SigningKey, valid_for: Duration, now: Timestamp) -> Result<String, TokenError> {
    // Claims count in whole seconds, so a shorter token could be born expired.
    if valid_for < Duration::from_secs(1) || valid_for > MAX_VALID_FOR {
        return Err(TokenError::ValidFor);
    }
    let from = now.checked_sub(CLOCK_SKEW).map_err(|_| TokenError::ValidFor)?;
    let until = now.checked_add(valid_for).map_err(|_| TokenError::ValidFor)?;
    let registered = Registered {
        exp: until.as_second(),
        nbf: from.as_second(),
        iat: from.as_second(),
        jti: Uuid::new_v4().to_string(),
    };
    let mut header = Header::new(Algorithm::RS256);
    header.kid = Some(key.id().to_string());
    encode(&header, &Payload { claims, registered }, key.encoding())
        .map_err(|source| TokenError::Sign { kid: key.id().clone(), source })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{DAY, now, parts, signing_key};

    #[test]
    fn a_token_looks_as_kuma_writes_it() {
        let claims = DataplaneClaims {
            name: "dp-1".to_owned(),
            mesh: "default".to_owned(),
            tags: [("kuma.io/service".to_owned(), vec!["web".to_owned()])].into(),
            kind: "dataplane".to_owned(),
            workload: String::new(),
            labels: [].into(),
        };
        let token = issue_dataplane(&claims, &signing_key(1), DAY, now()).unwrap();
        let (header, mut payload) = parts(&token);
        assert_eq!(header, json!({"typ": "JWT", "alg": "RS256", "kid": "1"}));
        let jti = payload.as_object_mut().unwrap().remove("jti").unwrap();
        assert_eq!(Uuid::parse_str(jti.as_str().unwrap()).unwrap().get_version_num(), 4);
        let at = now().as_second();
        assert_eq!(
            payload,
            json!({
                "Name": "dp-1", "Mesh": "default", "Tags": {"kuma.io/service": ["web"]}, "Type": "dataplane",
                "Workload": "",
                "exp": at + 86400, "nbf": at - 5, "iat": at - 5,
            })
        );
    }

    #[test]
    fn each_kind_writes_its_own_claims() {
        let zone = ZoneClaims { zone: "east".to_owned(), scope: vec!["ingress".to_owned()] };
        let (_, payload) = parts(&issue_zone(&zone, &signing_key(1), DAY, now()).unwrap());
        assert_eq!((&payload["Zone"], &payload["Scope"]), (&json!("east"), &json!(["ingress"])));
        let user = UserClaims { name: "jo".to_owned(), groups: vec!["ops".to_owned()] };
        let (_, payload) = parts(&issue_user(&user, &signing_key(1), DAY, now()).unwrap());
        assert_eq!((&payload["Name"], &payload["Groups"]), (&json!("jo"), &json!(["ops"])));
    }

    #[test]
    fn no_two_tokens_share_an_id() {
        let id = || -> Value {
            let token = issue_user(&UserClaims::default(), &signing_key(1), DAY, now()).unwrap();
            parts(&token).1["jti"].clone()
        };
        assert_ne!(id(), id());
    }

    #[test]
    fn times_that_make_no_sense_are_refused() {
        let issue = |valid_for, now| issue_user(&UserClaims::default(), &signing_key(1), valid_for, now);
        for valid_for in [Duration::ZERO, Duration::from_millis(999), MAX_VALID_FOR + DAY, Duration::MAX] {
            assert!(matches!(issue(valid_for, now()), Err(TokenError::ValidFor)), "{valid_for:?}");
        }
        for now in [Timestamp::MIN, Timestamp::MAX] {
            assert!(matches!(issue(DAY, now), Err(TokenError::ValidFor)), "{now}");
        }
    }
}
