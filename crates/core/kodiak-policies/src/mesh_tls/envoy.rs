//! Mode, versions and ciphers of TLS between proxies.

use kodiak_model::kinds::mesh::MtlsMode;
use kodiak_model::tls::TlsVersion;
use kodiak_model::{Choice, Word};

use super::{Conf, Mode, TlsCipher};
use crate::Entry;
use crate::policy::for_everybody;
use crate::target::{Tls, TlsParameters};

pub(super) fn tls(entries: &[Entry], tls: &mut Tls) {
    let Conf { tls_version, tls_ciphers, mode } = for_everybody(entries).read();
    tls.mode = mode.and_then(|mode| mode.known()).map(|mode| match mode {
        Mode::Strict => MtlsMode::Strict,
        Mode::Permissive => MtlsMode::Permissive,
    });
    let (min, max) = tls_version.map(|versions| (versions.min, versions.max)).unwrap_or_default();
    let ciphers = tls_ciphers.unwrap_or_default();
    tls.parameters = TlsParameters {
        min: exact(min),
        max: exact(max),
        ciphers: ciphers.iter().filter_map(Choice::known).map(TlsCipher::text).collect(),
    };
}

fn exact(version: Option<Choice<TlsVersion>>) -> Option<TlsVersion> {
    version?.known().filter(|version| *version != TlsVersion::Auto)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::mesh_tls::TlsSettings;
    use crate::samples::{from, rule};

    fn made(entries: &[Entry]) -> Tls {
        let mut tls = Tls::default();
        TlsSettings.tls(entries, &mut tls);
        tls
    }

    #[test]
    fn nothing_is_configured_without_entries() {
        assert_eq!(made(&[]), Tls::default());
        assert_eq!(made(&[rule("[]", "{}")]), Tls::default());
    }

    #[test]
    fn mode_of_the_strongest_entry_counts() {
        let both = [from("mode: Strict"), rule("[]", "mode: Permissive")];
        assert_eq!(made(&both).mode, Some(MtlsMode::Permissive));
        assert_eq!(made(&both[..1]).mode, Some(MtlsMode::Strict));
    }

    #[test]
    fn minimum_and_maximum_versions_are_both_set() {
        let TlsParameters { min, max, ciphers } = made(&[from("tlsVersion: {min: TLS12, max: TLS13}")]).parameters;
        assert_eq!((min, max), (Some(TlsVersion::Tls12), Some(TlsVersion::Tls13)));
        assert!(ciphers.is_empty());
    }

    #[test]
    fn automatic_version_is_left_to_envoy() {
        let automatic = made(&[from("tlsVersion: {min: TLS13}"), rule("[]", "tlsVersion: {min: TLSAuto}")]);
        assert_eq!(automatic, Tls::default());
    }

    #[test]
    fn later_entry_replaces_all_ciphers() {
        let first = from("{tlsCiphers: [ECDHE-RSA-AES128-GCM-SHA256], tlsVersion: {max: TLS12}}");
        let second = rule("[]", "tlsCiphers: [ECDHE-ECDSA-AES256-GCM-SHA384, ECDHE-ECDSA-CHACHA20-POLY1305]");
        let TlsParameters { min, max, ciphers } = made(&[first, second]).parameters;
        assert_eq!((min, max), (None, Some(TlsVersion::Tls12)));
        assert_eq!(ciphers, ["ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"]);
    }

    #[test]
    fn ciphers_that_no_proxy_can_use_are_reported() {
        for (conf, expected) in [
            ("tlsCiphers: [ECDHE-RSA-AES128-GCM-SHA256]", true),
            ("{tlsCiphers: [ECDHE-RSA-AES128-GCM-SHA256], tlsVersion: {max: TLS13}}", false),
            ("tlsCiphers: [ECDHE-RSA-AES128-GCM-SHA256, ECDHE-ECDSA-AES128-GCM-SHA256]", false),
            ("tlsCiphers: []", false),
            ("mode: Strict", false),
        ] {
            assert_eq!(from(conf).conf.read::<Conf>().excludes_tls12(), expected, "{conf}");
        }
    }
}
