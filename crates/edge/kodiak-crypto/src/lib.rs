//! Keys and certificates: the only crate that touches cryptography for the control plane's own needs.
//!
//! In: names, times, PEM text from users and from the store. Out: keys, certificates, TLS settings, and faults of the
//! input. It does not know the store, the model or HTTP; the clock is always an argument.
//!
//! **Invariant:** everything runs on aws-lc-rs, and the rustls provider is passed explicitly. The process default is
//! never read, so no other crate in the process can change what we use.
//! **Invariant:** a private key is never printed. `Debug` of every type that holds one is `***`.
mod ca_check;
mod certificate;
mod derived_key;
mod error;
mod fingerprint;
mod issue;
mod pem;
mod random;
mod rsa_key;
mod server_names;
mod server_verifier;
#[cfg(test)]
mod tests;
mod tls;

pub use ca_check::{CaFault, CaProblem, PairFault, check_ca_pair, check_trusted, is_mismatch, trusted_certificates};
pub use certificate::{
    CaKeyType, CertificateUse, KeyPair, RootCaParams, SelfSignedParams, ServerCertParams, TEN_YEARS, root_ca,
    self_signed, self_signed_server,
};
pub use error::CryptoError;
pub use fingerprint::{fingerprint, fingerprint_of};
pub use issue::{CaPair, IssuedLeaf, LeafSpec, LeafUsage};
pub use pem::{MAX_PEM_BYTES, PrivatePem, certificate_pem, certificates};
pub use random::random_bytes;
pub use rustls_pki_types::CertificateDer;

pub use rsa_key::{RsaBits, RsaKey, RsaPublicKey};
pub use server_names::server_names;
pub use server_verifier::server_verifier;
pub use tls::{ClientCa, client_config, client_config_with, server_config};
