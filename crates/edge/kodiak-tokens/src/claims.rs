//! What tokens say about their holder.
//!
//! On the wire the keys are capitalised, as Go names its fields, and read in any case. Go writes `null` for an empty
//! list or map, so `null` means absent. Unknown claims are ignored: newer issuers may say more.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::TokenError;

/// For a data plane proxy. What is empty does not bind the token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DataplaneClaims {
    pub name: String,
    pub mesh: String,
    pub tags: BTreeMap<String, Vec<String>>,
    /// `dataplane`, `ingress` or `egress`. Carried, but never decided upon, as in Kuma.
    #[serde(rename = "Type")]
    pub kind: String,
    pub workload: String,
    /// Ours; Kuma's tokens do not have it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Vec<String>>,
}

/// For the proxies of a zone. An empty zone fits any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ZoneClaims {
    pub zone: String,
    pub scope: Vec<String>,
}

/// For people and machines that use the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct UserClaims {
    pub name: String,
    pub groups: Vec<String>,
}

/// The claims of one kind of token, and their keys on the wire.
pub(crate) trait Claims: Serialize + DeserializeOwned {
    const KEYS: &'static [&'static str];
}

impl Claims for DataplaneClaims {
    const KEYS: &'static [&'static str] = &["Name", "Mesh", "Tags", "Type", "Workload", "Labels"];
}

impl Claims for ZoneClaims {
    const KEYS: &'static [&'static str] = &["Zone", "Scope"];
}

impl Claims for UserClaims {
    const KEYS: &'static [&'static str] = &["Name", "Groups"];
}

/// The keys of all kinds, to tell a token of another kind.
const ALL_KEYS: [&[&str]; 3] = [DataplaneClaims::KEYS, ZoneClaims::KEYS, UserClaims::KEYS];

/// The claims that every token has (RFC 7519, section 4.1), in seconds since the epoch.
#[derive(Debug, Serialize)]
pub(crate) struct Registered {
    pub(crate) exp: i64,
    pub(crate) nbf: i64,
    pub(crate) iat: i64,
    pub(crate) jti: String,
}

#[derive(Serialize)]
pub(crate) struct Payload<'a, C> {
    #[serde(flatten)]
    pub(crate) claims: &'a C,
    #[serde(flatten)]
    pub(crate) registered: Registered,
}

/// Reads the claims of a kind out of a payload.
pub(crate) fn from_payload<C: Claims>(payload: &Map<String, Value>) -> Result<C, TokenError> {
    // Empty claims bind nothing, so a user token read as a dataplane token would fit every proxy. The keys differ per
    // kind, but an operator may use one for all. Exact spelling here: a plain `scope` may come from any other issuer.
    let foreign = |key: &&&str| !C::KEYS.contains(*key) && payload.contains_key(**key);
    if let Some(key) = ALL_KEYS.iter().copied().flatten().find(foreign) {
        return Err(TokenError::OtherKind(key));
    }
    let mut own = Map::new();
    for (key, value) in payload {
        let Some(known) = C::KEYS.iter().find(|known| known.eq_ignore_ascii_case(key)) else { continue };
        // Two spellings of one claim are two answers to one question; only a forger or a defect writes that.
        if !value.is_null() && own.insert((*known).to_owned(), value.clone()).is_some() {
            return Err(TokenError::ClaimTwice(known));
        }
    }
    serde_json::from_value(Value::Object(own)).map_err(|source| TokenError::Claims { source })
}

/// The id of the token, without which it could not be revoked.
pub(crate) fn token_id(payload: &Map<String, Value>) -> Result<String, TokenError> {
    match payload.get("jti").and_then(Value::as_str) {
        Some(jti) if !jti.is_empty() => Ok(jti.to_owned()),
        Some(_) | None => Err(TokenError::ClaimMissing("jti")),
    }
}

/// A time of the payload, if it has one.
pub(crate) fn time(payload: &Map<String, Value>, key: &'static str) -> Result<Option<Timestamp>, TokenError> {
    match payload.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let second = value.as_i64().ok_or(TokenError::ClaimTime(key))?;
            Timestamp::from_second(second).map(Some).map_err(|_| TokenError::ClaimTime(key))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(json: &str) -> Map<String, Value> {
        serde_json::from_str(json).unwrap()
    }

    /// `KEYS` and the fields are written twice, so this ties them together.
    #[test]
    fn the_keys_are_those_of_the_fields() {
        fn written<C: Claims>(claims: &C) -> Vec<String> {
            let Value::Object(object) = serde_json::to_value(claims).unwrap() else { panic!("not an object") };
            object.keys().cloned().collect()
        }
        // Labels are written only where there are some, as Kuma knows none.
        let labels = [("app".to_owned(), vec!["web".to_owned()])].into();
        assert_eq!(written(&DataplaneClaims { labels, ..DataplaneClaims::default() }), DataplaneClaims::KEYS);
        assert_eq!(written(&ZoneClaims::default()), ZoneClaims::KEYS);
        assert_eq!(written(&UserClaims::default()), UserClaims::KEYS);
    }

    #[test]
    fn keys_are_read_in_any_case_and_null_is_absent() {
        let read: DataplaneClaims = from_payload(&payload(
            r#"{"NAME":"dp-1","mesh":"default","Tags":null,"type":"dataplane","Workload":"w","other":1}"#,
        ))
        .unwrap();
        let expected = DataplaneClaims {
            name: "dp-1".to_owned(),
            mesh: "default".to_owned(),
            tags: BTreeMap::new(),
            kind: "dataplane".to_owned(),
            workload: "w".to_owned(),
            labels: BTreeMap::new(),
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn a_claim_in_two_spellings_is_refused() {
        let read = from_payload::<UserClaims>(&payload(r#"{"Name":"jo","name":"admin"}"#));
        assert!(matches!(read, Err(TokenError::ClaimTwice("Name"))));
    }

    #[test]
    fn claims_of_the_wrong_shape_are_refused() {
        for json in [r#"{"Name":1}"#, r#"{"Groups":"admin"}"#, r#"{"Groups":[1]}"#, r#"{"Groups":{}}"#] {
            assert!(matches!(from_payload::<UserClaims>(&payload(json)), Err(TokenError::Claims { .. })), "{json}");
        }
    }

    #[test]
    fn times_are_whole_seconds_within_reach() {
        assert_eq!(time(&payload("{}"), "exp").unwrap(), None);
        assert_eq!(time(&payload(r#"{"exp":0}"#), "exp").unwrap(), Some(Timestamp::UNIX_EPOCH));
        for json in [r#"{"exp":"1"}"#, r#"{"exp":1.5}"#, r#"{"exp":1e300}"#, r#"{"exp":9223372036854775807}"#] {
            assert!(matches!(time(&payload(json), "exp"), Err(TokenError::ClaimTime("exp"))), "{json}");
        }
    }
}
