//! Leaves: the same again, different where they must be, and good for rustls.

use std::sync::{Arc, LazyLock};

use proptest::collection::vec;
use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyUsagePurpose, PKCS_ED25519};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::{CertificateDer, ServerName};
use x509_parser::prelude::{FromDer as _, GeneralName, ParsedExtension, X509Certificate};

use super::{DAY, made, now, root, unix};
use crate::tls::provider;
use crate::{CaPair, CryptoError, IssuedLeaf, KeyPair, LeafSpec, LeafUsage, PrivatePem, pem, server_config};

fn pair(ca: &KeyPair) -> CaPair {
    CaPair::from_pem(ca.cert_pem.as_bytes(), ca.key_pem.expose().as_bytes()).unwrap()
}

fn ecdsa() -> KeyPair {
    made(|params| params.distinguished_name.push(DnType::CommonName, "ecdsa"))
}

fn ed25519() -> KeyPair {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = rcgen::KeyPair::generate_for(&PKCS_ED25519).unwrap();
    KeyPair { cert_pem: params.self_signed(&key).unwrap().pem(), key_pem: PrivatePem::new(key.serialize_pem()) }
}

fn issued(ca: &CaPair, edit: impl FnOnce(&mut LeafSpec<'_>)) -> IssuedLeaf {
    let uris = ["spiffe://default/web".to_owned(), "kuma://kuma.io/service/web".to_owned()];
    let dns_names = ["web.internal".to_owned()];
    let mut spec = LeafSpec {
        purpose: "mesh",
        subject: "default/web-1",
        incarnation: 1,
        epoch: 7,
        usage: LeafUsage::Both,
        not_before: now(),
        not_after: now() + DAY,
        uris: &uris,
        dns_names: &dns_names,
        ips: &["192.0.2.1".parse().unwrap()],
    };
    edit(&mut spec);
    ca.issue(&spec).unwrap()
}

fn der(leaf: &IssuedLeaf) -> CertificateDer<'static> {
    pem::certificates(leaf.cert_pem.as_bytes()).unwrap().remove(0)
}

fn roots(cas: &[&CaPair]) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for ca in cas {
        roots.add(pem::certificates(ca.roots_pem().as_bytes()).unwrap().remove(0)).unwrap();
    }
    Arc::new(roots)
}

fn believed_as_client(leaf: &IssuedLeaf, cas: &[&CaPair]) -> bool {
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(cas), provider()).build().unwrap();
    verifier.verify_client_cert(&der(leaf), &[], unix(now())).is_ok()
}

fn believed_as_server(leaf: &IssuedLeaf, ca: &CaPair, name: &str) -> bool {
    let verifier = WebPkiServerVerifier::builder_with_provider(roots(&[ca]), provider()).build().unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    verifier.verify_server_cert(&der(leaf), &[], &name, &[], unix(now())).is_ok()
}

#[test]
fn an_rsa_authority_issues_the_same_bytes_again() {
    // Read twice, as two control planes would.
    assert_eq!(issued(&pair(root()), |_| ()), issued(&pair(root()), |_| ()));
}

#[test]
fn an_ecdsa_authority_issues_the_same_but_for_the_signature() {
    let ca = ecdsa();
    let (one, two) = (issued(&pair(&ca), |_| ()), issued(&pair(&ca), |_| ()));
    assert_eq!(one.key_pem, two.key_pem);
    let (one, two) = (der(&one), der(&two));
    let (_, one) = X509Certificate::from_der(&one).unwrap();
    let (_, two) = X509Certificate::from_der(&two).unwrap();
    assert_eq!(one.tbs_certificate.as_ref(), two.tbs_certificate.as_ref());
}

#[test]
fn another_identity_is_another_key() {
    let ca = pair(root());
    let key = |edit: fn(&mut LeafSpec<'_>)| issued(&ca, edit).key_pem;
    let keys = [
        key(|_| ()),
        key(|spec| spec.subject = "default/web-2"),
        key(|spec| spec.epoch = 8),
        key(|spec| spec.purpose = "admin"),
        key(|spec| spec.incarnation = 2),
        key(|spec| spec.usage = LeafUsage::Client),
        key(|spec| spec.uris = &[]),
        key(|spec| spec.uris = &spec.uris[..1]),
        key(|spec| spec.dns_names = &[]),
        key(|spec| spec.ips = &[]),
        issued(&pair(&ecdsa()), |_| ()).key_pem,
    ];
    for (index, one) in keys.iter().enumerate() {
        assert!(keys[index + 1..].iter().all(|other| one != other), "{index}");
    }
}

/// What a leaf is made for, drawn from few values so that equal ones are met too.
type Drawn = (u8, i64, u64, Vec<String>, Vec<String>);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn keys_are_equal_exactly_when_identities_are(
        one in (0_u8..2, 0_i64..2, 0_u64..2, vec("[ab]{1,2}", 1..3), vec("[ab]{1,2}", 0..3)),
        other in (0_u8..2, 0_i64..2, 0_u64..2, vec("[ab]{1,2}", 1..3), vec("[ab]{1,2}", 0..3)),
    ) {
        static CA: LazyLock<KeyPair> = LazyLock::new(ecdsa);
        // Read anew for each leaf, as after a restart.
        let key = |(subject, incarnation, epoch, uris, names): &Drawn| {
            let uris: Vec<_> = uris.iter().map(|name| format!("spiffe://{name}")).collect();
            let subject = if *subject == 0 { "default/web-1" } else { "default/web-2" };
            let spec = LeafSpec {
                purpose: "mesh",
                subject,
                incarnation: *incarnation,
                epoch: *epoch,
                usage: LeafUsage::Both,
                not_before: now(),
                not_after: now() + DAY,
                uris: &uris,
                dns_names: names,
                ips: &[],
            };
            pair(&CA).issue(&spec).unwrap().key_pem
        };
        prop_assert_eq!(key(&one) == key(&other), one == other);
        prop_assert_eq!(key(&one), key(&one));
    }
}

#[test]
fn whatever_the_leaf_says_differently_gives_another_serial() {
    let ca = pair(root());
    let serial = |edit: fn(&mut LeafSpec<'_>)| {
        let der = der(&issued(&ca, edit));
        let (_, leaf) = X509Certificate::from_der(&der).unwrap();
        leaf.raw_serial().to_vec()
    };
    let serials = [
        serial(|_| ()),
        serial(|spec| spec.uris = &spec.uris[..1]),
        serial(|spec| spec.dns_names = &[]),
        serial(|spec| spec.ips = &[]),
        serial(|spec| spec.not_after = now() + 2 * DAY),
        serial(|spec| spec.usage = LeafUsage::Server),
    ];
    for (index, one) in serials.iter().enumerate() {
        assert!(one.len() == 20 && one[0] < 0x80, "{one:?}");
        assert!(serials[index + 1..].iter().all(|other| one != other), "{index}");
    }
}

#[test]
fn a_leaf_is_believed_through_its_authority_only() {
    let others = pair(&made(|_| ()));
    for ca in [root(), &ecdsa(), &ed25519()] {
        let ca = pair(ca);
        let leaf = issued(&ca, |_| ());
        assert!(believed_as_client(&leaf, &[&ca]));
        assert!(believed_as_client(&leaf, &[&others, &ca]));
        assert!(!believed_as_client(&leaf, &[&others]));
        assert!(believed_as_server(&leaf, &ca, "web.internal") && believed_as_server(&leaf, &ca, "192.0.2.1"));
        assert!(!believed_as_server(&leaf, &ca, "other.internal"));
        server_config(leaf.cert_pem.as_bytes(), leaf.key_pem.expose().as_bytes(), None).unwrap();
    }
}

#[test]
fn a_leaf_for_one_side_is_not_believed_on_the_other() {
    let ca = pair(root());
    let server = issued(&ca, |spec| spec.usage = LeafUsage::Server);
    assert!(believed_as_server(&server, &ca, "web.internal") && !believed_as_client(&server, &[&ca]));
    let client = issued(&ca, |spec| spec.usage = LeafUsage::Client);
    assert!(!believed_as_server(&client, &ca, "web.internal") && believed_as_client(&client, &[&ca]));
}

#[test]
fn a_leaf_says_what_was_asked_for() {
    let ca = pair(root());
    let der = der(&issued(&ca, |_| ()));
    let (_, leaf) = X509Certificate::from_der(&der).unwrap();
    assert_eq!(leaf.subject().to_string(), "");
    let names = leaf.subject_alternative_name().unwrap().unwrap();
    assert!(names.critical);
    assert_eq!(
        names.value.general_names,
        [
            GeneralName::URI("spiffe://default/web"),
            GeneralName::URI("kuma://kuma.io/service/web"),
            GeneralName::DNSName("web.internal"),
            GeneralName::IPAddress(&[192, 0, 2, 1]),
        ]
    );
    let usage = leaf.key_usage().unwrap().unwrap();
    assert_eq!(usage.value.to_string(), "Digital Signature, Key Encipherment, Key Agreement");
    let extended = leaf.extended_key_usage().unwrap().unwrap().value;
    assert!(extended.server_auth && extended.client_auth && !extended.any);
    assert!(!leaf.basic_constraints().unwrap().unwrap().value.ca);
    assert_eq!(leaf.validity().not_before.timestamp(), now().as_second());
    assert_eq!(leaf.validity().not_after.timestamp(), (now() + DAY).as_second());
}

#[test]
fn a_leaf_points_to_the_key_of_its_authority() {
    let authority = pem::certificates(root().cert_pem.as_bytes()).unwrap().remove(0);
    let (_, authority) = X509Certificate::from_der(&authority).unwrap();
    let own = authority.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
        _ => None,
    });
    let leaf = der(&issued(&pair(root()), |_| ()));
    let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
    let pointed = leaf.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.as_ref().map(|id| id.0.to_vec()),
        _ => None,
    });
    assert!(own.is_some());
    assert_eq!(own, pointed);
}

#[test]
fn the_roots_never_hold_the_key() {
    let (one, two) = (root(), ecdsa());
    let bundle = format!("{}{}{}", one.cert_pem, one.key_pem.expose(), two.cert_pem);
    let ca = CaPair::from_pem(bundle.as_bytes(), bundle.as_bytes()).unwrap();
    assert!(!ca.roots_pem().contains("PRIVATE KEY"));
    assert_eq!(pem::certificates(ca.roots_pem().as_bytes()).unwrap().len(), 2);
    assert_eq!(format!("{ca:?}"), "***");
}

#[test]
fn what_is_no_authority_is_refused() {
    let (one, two) = (root(), ecdsa());
    let read = |cert: &str, key: &str| CaPair::from_pem(cert.as_bytes(), key.as_bytes()).unwrap_err();
    assert!(matches!(read(&one.cert_pem, two.key_pem.expose()), CryptoError::CaMismatch));
    assert!(matches!(read("", two.key_pem.expose()), CryptoError::PemEmpty("certificate")));
    assert!(matches!(read(&one.cert_pem, ""), CryptoError::PemEmpty("private key")));
    let nonsense = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert!(matches!(read(&one.cert_pem, nonsense), CryptoError::CaKey));
}

#[test]
fn a_leaf_without_names_or_with_bad_ones_is_refused() {
    let ca = pair(root());
    let spec = LeafSpec {
        purpose: "mesh",
        subject: "x",
        incarnation: 0,
        epoch: 0,
        usage: LeafUsage::Both,
        not_before: now(),
        not_after: now() + DAY,
        uris: &[],
        dns_names: &[],
        ips: &[],
    };
    assert!(matches!(ca.issue(&spec), Err(CryptoError::Nameless)));
    let bad = ["a b".to_owned()];
    assert!(matches!(ca.issue(&LeafSpec { dns_names: &bad, ..spec }), Err(CryptoError::Name(_))));
    let bad = ["spiffe://ü".to_owned()];
    assert!(matches!(ca.issue(&LeafSpec { uris: &bad, ..spec }), Err(CryptoError::Name(_))));
}

#[test]
fn an_authority_whose_name_cannot_be_repeated_does_not_sign() {
    // Two organizational units: the second one under its number, because rcgen takes each word once.
    let ca = made(|params| {
        params.distinguished_name.push(DnType::OrganizationalUnitName, "one");
        params.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 11]), "two");
    });
    let names = ["web.internal".to_owned()];
    let issued = pair(&ca).issue(&LeafSpec {
        purpose: "mesh",
        subject: "x",
        incarnation: 0,
        epoch: 0,
        usage: LeafUsage::Both,
        not_before: now(),
        not_after: now() + DAY,
        uris: &[],
        dns_names: &names,
        ips: &[],
    });
    assert!(matches!(issued, Err(CryptoError::CaSubject)), "{issued:?}");
}
