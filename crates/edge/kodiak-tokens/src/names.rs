//! The names of the secrets that tokens depend on: signing keys, revocation lists and the admin's token.
//!
//! They are the contract with meshes made by Kuma and with its documentation, so they are built here and nowhere else.

use std::collections::BTreeSet;
use std::fmt;

use crate::TokenError;
use crate::keys::KeyId;

/// The GlobalSecret with the user token of the first admin.
pub const ADMIN_USER_TOKEN: &str = "admin-user-token";

/// The serial number of the first key of each kind.
pub const FIRST_SERIAL: u64 = 1;

/// Where something is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretName {
    /// A `Secret` in a mesh.
    Mesh { mesh: String, name: String },
    /// A `GlobalSecret`.
    Global { name: String },
}

impl SecretName {
    pub fn name(&self) -> &str {
        let (Self::Mesh { name, .. } | Self::Global { name }) = self;
        name
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mesh { mesh, name } => write!(f, "Secret of name {name:?} in mesh {mesh:?}"),
            Self::Global { name } => write!(f, "GlobalSecret of name {name:?}"),
        }
    }
}

/// A kind of token; each has its own keys and its own revocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind<'a> {
    Dataplane { mesh: &'a str },
    Zone,
    User,
}

impl<'a> TokenKind<'a> {
    /// Every kind, with those of one mesh.
    pub fn all(mesh: &'a str) -> [Self; 3] {
        // A new kind belongs into the list, and does not compile before it is here.
        match Self::User {
            Self::Dataplane { .. } | Self::Zone | Self::User => [Self::Dataplane { mesh }, Self::Zone, Self::User],
        }
    }

    /// Every secret that decides whether a token with this key id is good.
    pub fn secrets(self, kid: &KeyId) -> Vec<SecretName> {
        let mut secrets = self.revocations();
        secrets.push(self.signing_key(kid));
        secrets
    }

    /// Where the key with this id is kept.
    pub fn signing_key(self, kid: &KeyId) -> SecretName {
        let prefix = self.key_prefix();
        // Keys of Kuma 1.3 have no number; they count as 0.
        self.secret(if kid.as_str() == "0" { prefix } else { format!("{prefix}-{kid}") })
    }

    /// The serial number of the key kept under this name, if it is one of this kind.
    pub fn serial(self, name: &str) -> Option<u64> {
        let rest = name.strip_prefix(&self.key_prefix())?;
        if rest.is_empty() {
            return Some(0);
        }
        let digits = rest.strip_prefix('-')?;
        // Only the form we would write: else `01` and `1` would be two keys with one id.
        digits.parse().ok().filter(|serial: &u64| *serial != 0 && serial.to_string() == digits)
    }

    /// The serial number of the newest key among these names. New tokens are signed with it.
    pub fn newest<'n>(self, names: impl IntoIterator<Item = &'n str>) -> Option<u64> {
        names.into_iter().filter_map(|name| self.serial(name)).max()
    }

    /// Where revoked tokens are listed. A token on any of the lists is revoked.
    ///
    /// Two for dataplane tokens: Kuma's documentation says a Secret in the mesh, its code reads a GlobalSecret.
    pub fn revocations(self) -> Vec<SecretName> {
        match self {
            Self::Dataplane { mesh } => {
                let name = format!("dataplane-token-revocations-{mesh}");
                vec![self.secret(name.clone()), SecretName::Global { name }]
            }
            Self::Zone => vec![self.secret("zone-token-revocations".to_owned())],
            Self::User => vec![self.secret("user-token-revocations".to_owned())],
        }
    }

    /// The error of a `KeySource` that has no such key.
    pub fn key_not_found(self, kid: &KeyId) -> TokenError {
        TokenError::KeyNotFound { kid: kid.clone(), secret: self.signing_key(kid) }
    }

    fn key_prefix(self) -> String {
        match self {
            Self::Dataplane { mesh } => format!("dataplane-token-signing-key-{mesh}"),
            Self::Zone => "zone-token-signing-key".to_owned(),
            Self::User => "user-token-signing-key".to_owned(),
        }
    }

    fn secret(self, name: String) -> SecretName {
        match self {
            Self::Dataplane { mesh } => SecretName::Mesh { mesh: mesh.to_owned(), name },
            Self::Zone | Self::User => SecretName::Global { name },
        }
    }
}

pub fn dataplane_signing_key(mesh: &str, serial: u64) -> SecretName {
    TokenKind::Dataplane { mesh }.signing_key(&KeyId::serial(serial))
}

pub fn zone_signing_key(serial: u64) -> SecretName {
    TokenKind::Zone.signing_key(&KeyId::serial(serial))
}

/// What a federated zone gets of the global control plane's key.
pub fn zone_signing_public_key(serial: u64) -> SecretName {
    SecretName::Global { name: format!("zone-token-signing-public-key-{serial}") }
}

pub fn user_signing_key(serial: u64) -> SecretName {
    TokenKind::User.signing_key(&KeyId::serial(serial))
}

/// The ids in the data of a revocation secret: separated by commas, with or without a newline at the end.
pub fn parse_revocations(text: &str) -> BTreeSet<String> {
    // Blanks around an id are not part of it: who writes `a, b` means to revoke both.
    text.split(',').map(str::trim).filter(|id| !id.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: TokenKind<'_> = TokenKind::Dataplane { mesh: "default" };

    #[test]
    fn names_are_those_of_kuma() {
        let key = dataplane_signing_key("default", 1);
        assert_eq!(key.name(), "dataplane-token-signing-key-default-1");
        assert_eq!(key.to_string(), r#"Secret of name "dataplane-token-signing-key-default-1" in mesh "default""#);
        assert_eq!(zone_signing_key(2).to_string(), r#"GlobalSecret of name "zone-token-signing-key-2""#);
        assert_eq!(user_signing_key(3).to_string(), r#"GlobalSecret of name "user-token-signing-key-3""#);
        assert_eq!(zone_signing_public_key(4).name(), "zone-token-signing-public-key-4");
        assert_eq!(dataplane_signing_key("default", 0).name(), "dataplane-token-signing-key-default");
    }

    #[test]
    fn serials_are_read_from_names() {
        let cases = [
            ("dataplane-token-signing-key-default", Some(0)),
            ("dataplane-token-signing-key-default-1", Some(1)),
            ("dataplane-token-signing-key-default-18446744073709551615", Some(u64::MAX)),
            ("dataplane-token-signing-key-default-18446744073709551616", None),
            ("dataplane-token-signing-key-default-0", None),
            ("dataplane-token-signing-key-default-01", None),
            ("dataplane-token-signing-key-default-+1", None),
            ("dataplane-token-signing-key-default--1", None),
            ("dataplane-token-signing-key-default-", None),
            ("dataplane-token-signing-key-default-x", None),
            ("dataplane-token-signing-key-default2", None),
            ("dataplane-token-signing-key-other-1", None),
            ("user-token-signing-key-1", None),
            ("", None),
        ];
        for (name, serial) in cases {
            assert_eq!(DEFAULT.serial(name), serial, "{name}");
        }
        assert_eq!(TokenKind::Zone.serial("zone-token-signing-public-key-1"), None);
    }

    #[test]
    fn the_newest_key_has_the_highest_number() {
        let names = ["user-token-signing-key-9", "user-token-signing-key-10", "user-token-signing-key", "other-99"];
        assert_eq!(TokenKind::User.newest(names), Some(10));
        assert_eq!(TokenKind::User.newest(["user-token-signing-key"]), Some(0));
        assert_eq!(TokenKind::User.newest([]), None);
    }

    #[test]
    fn revocations_of_dataplanes_are_looked_up_in_both_places() {
        let places: Vec<_> = DEFAULT.revocations().iter().map(SecretName::to_string).collect();
        assert_eq!(
            places,
            [
                r#"Secret of name "dataplane-token-revocations-default" in mesh "default""#,
                r#"GlobalSecret of name "dataplane-token-revocations-default""#
            ]
        );
        assert_eq!(TokenKind::Zone.revocations()[0].name(), "zone-token-revocations");
        assert_eq!(TokenKind::User.revocations()[0].name(), "user-token-revocations");
    }

    #[test]
    fn revocation_lists_are_read_as_they_are_meant() {
        let cases: [(&str, &[&str]); 7] = [
            ("", &[]),
            ("\n", &[]),
            ("a", &["a"]),
            ("a,b\n", &["a", "b"]),
            ("b, a\r\n", &["a", "b"]),
            (",a,,a,", &["a"]),
            ("a\nb", &["a\nb"]),
        ];
        for (text, ids) in cases {
            assert_eq!(parse_revocations(text).iter().collect::<Vec<_>>(), ids, "{text:?}");
        }
    }
}
