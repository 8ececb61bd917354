//! The names that a server's certificate is for.

use std::net::IpAddr;

use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer};

use crate::{CryptoError, pem};

/// DNS names and addresses of the first certificate, as text. Empty when it cannot be read.
pub fn server_names(cert_pem: &[u8]) -> Result<Vec<String>, CryptoError> {
    let chain = pem::certificates(cert_pem)?;
    let Some((_, certificate)) = chain.first().and_then(|der| X509Certificate::from_der(der).ok()) else {
        return Ok(Vec::new());
    };
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return Ok(Vec::new()) };
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
        _ => None,
    };
    Ok(names.value.general_names.iter().filter_map(text).collect())
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let v6 = || <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    v4().or_else(|_| v6()).ok()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::{ServerCertParams, TEN_YEARS, self_signed_server};

    #[test]
    fn a_certificate_tells_its_names_and_addresses() {
        let params = ServerCertParams {
            hostnames: &["localhost", "cp.example"],
            ips: &[IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])],
            valid_for: TEN_YEARS,
            now: Timestamp::from_second(1_700_000_000).unwrap(),
        };
        let pair = self_signed_server(&params).unwrap();
        let names = server_names(pair.cert_pem.as_bytes()).unwrap();
        assert_eq!(names, ["cp.example", "localhost", "127.0.0.1", "::1"]);
    }
}
