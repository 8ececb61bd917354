//! Tokens: how a dataplane, a zone proxy or a user proves who they are.
//!
//! In: claims, keys and the time. Out: signed JWTs, and the claims of those that are good. The crate does not know the
//! store: who calls it brings the keys (`KeySource`), and the command line signs offline with the same functions.
//!
//! **Invariant:** only RS256 is accepted, whatever the header of a token says.
//! **Invariant:** no claim is looked at before the signature is verified.
//! **Invariant:** the clock is an argument; jsonwebtoken's own checks of time are off.
//! **Invariant:** jsonwebtoken chooses its cryptography by cargo feature and panics if there are two. The workspace
//! names `aws_lc_rs`, and no crate may add `rust_crypto`.
mod check;
mod claims;
mod error;
mod issue;
mod keys;
pub mod names;
#[cfg(test)]
mod testing;
mod valid_for;
mod verify;

pub use check::{ProxyFacts, ZoneFacts, ZoneScope, check_dataplane, check_dataplane_name, check_zone};
pub use claims::{DataplaneClaims, UserClaims, ZoneClaims};
pub use error::TokenError;
pub use issue::{issue_dataplane, issue_user, issue_zone};
pub use keys::{KeyId, KeySource, SigningKey, VerificationKey};
pub use kodiak_crypto::TEN_YEARS;
pub use valid_for::{MAX_VALID_FOR, ValidForError, parse_valid_for};
pub use verify::{MAX_TOKEN_BYTES, Verified, verify_dataplane, verify_user, verify_zone};
