//! RSA keys survive the trip through every form they are stored in.

use base64::Engine as _;

use crate::pem::encode;
use crate::tests::made;
use crate::{CryptoError, RsaBits, RsaKey, RsaPublicKey, random_bytes};

/// Where PKCS1 begins inside the PKCS8 of an RSA key of 2048 bits: the header has a fixed length.
const PKCS8_HEADER: usize = 26;

#[test]
fn a_key_is_read_back_from_every_form() {
    let key = RsaKey::generate().unwrap();
    let public = key.public_pem().unwrap();
    let pkcs8 = key.pkcs8().unwrap();
    let pkcs1 = &pkcs8.secret_pkcs8_der()[PKCS8_HEADER..];
    let forms = [
        ("PKCS8 PEM", key.to_pem().unwrap().expose().as_bytes().to_vec()),
        ("PKCS1 PEM", encode("RSA PRIVATE KEY", pkcs1).into_bytes()),
        ("PKCS1 DER", pkcs1.to_vec()),
    ];
    for (name, bytes) in forms {
        let read = RsaKey::from_bytes(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read.public_pem().unwrap(), public, "{name}");
    }
}

#[test]
fn a_public_key_is_read_back_from_every_form() {
    let public = RsaKey::generate().unwrap().public();
    let pem = public.to_pem().unwrap();
    assert!(pem.starts_with("-----BEGIN PUBLIC KEY-----\n"), "{pem}");
    let forms = [
        ("SPKI PEM", pem.clone().into_bytes()),
        ("PKCS1 PEM", encode("RSA PUBLIC KEY", public.pkcs1_der()).into_bytes()),
        ("PKCS1 DER", public.pkcs1_der().to_vec()),
    ];
    for (name, bytes) in forms {
        let read = RsaPublicKey::from_bytes(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read.to_pem().unwrap(), pem, "{name}");
    }
}

#[test]
fn a_private_key_does_not_print_itself() {
    let key = RsaKey::generate().unwrap();
    assert_eq!(format!("{key:?}"), "***");
    let printed = format!("{:?}", crate::tests::root());
    assert!(printed.contains("key_pem: ***") && !printed.contains("PRIVATE KEY"), "{printed}");
}

#[test]
fn other_keys_are_refused_by_name() {
    let ec = made(|_| ()).key_pem;
    assert!(matches!(RsaKey::from_bytes(ec.expose().as_bytes()), Err(CryptoError::ReadKey { .. })));
    assert!(matches!(RsaKey::from_bytes(encode("EC PRIVATE KEY", &[1, 2]).as_bytes()), Err(CryptoError::NotRsa)));
    assert!(matches!(RsaKey::from_bytes(b"-----BEGIN nothing"), Err(CryptoError::Pem { .. })));
    assert!(matches!(RsaKey::from_bytes(b""), Err(CryptoError::ReadKey { .. })));
}

#[test]
fn short_public_keys_are_refused() {
    // Made with `openssl genrsa 1024`.
    let short = concat!(
        "MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDKRapiJztzjzLT990HlyXMaRi7+bkkW3bjn6ETRnEENDp8mbMjsx",
        "5WFcJQ9J7ObuN8Inoap6V7iy+4OaPAGudqoyErWvqJ8f5wGDMi9I0ANcIA3cRqUo+uez81vFgKk/kdysP/uEcg3yyx",
        "7hEJyi5y4jrWazXa5iJbhbpSWB9XFQIDAQAB"
    );
    let der = base64::engine::general_purpose::STANDARD.decode(short).unwrap();
    assert!(matches!(RsaPublicKey::from_bytes(&der), Err(CryptoError::RsaTooShort)));
}

#[test]
fn only_known_lengths_are_made() {
    assert_eq!(RsaBits::try_from(3072).unwrap(), RsaBits::B3072);
    assert!(matches!(RsaBits::try_from(1024), Err(CryptoError::RsaBits(1024))));
}

#[test]
fn random_bytes_differ() {
    assert_ne!(random_bytes::<16>().unwrap(), random_bytes::<16>().unwrap());
}
