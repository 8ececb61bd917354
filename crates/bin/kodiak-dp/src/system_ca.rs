//! The CA file of the operating system. Envoy verifies certificates outside the mesh with it by default.

use std::ffi::OsStr;
use std::path::{Path, PathBuf, absolute};

/// Path of the file; many other programs use this variable too.
pub const VARIABLE: &str = "SSL_CERT_FILE";

/// Locations by distribution, the most common first.
const PLACES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// If [`VARIABLE`] is set, only its path is used. `None` when there is no file.
pub fn find(variable: Option<&OsStr>) -> Option<PathBuf> {
    match variable.filter(|value| !value.is_empty()) {
        Some(file) => first([Path::new(file)]),
        None => first(PLACES.map(Path::new)),
    }
}

/// Envoy runs in another folder, so the path is absolute.
fn first<'a>(places: impl IntoIterator<Item = &'a Path>) -> Option<PathBuf> {
    places.into_iter().find(|place| place.is_file()).and_then(|place| absolute(place).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_existing_file_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let [none, one, two] = ["none", "one", "two"].map(|name| folder.path().join(name));
        std::fs::write(&one, "PEM").unwrap();
        std::fs::write(&two, "PEM").unwrap();
        assert_eq!(first([&*none, folder.path(), &*one, &*two]), Some(one));
        assert_eq!(first([&*none]), None);
        assert_eq!(first([Path::new("Cargo.toml")]).as_deref(), Some(&*absolute("Cargo.toml").unwrap()));
    }

    #[test]
    fn variable_overrides_all_places() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        assert_eq!(find(Some(file.as_os_str())), None);
        std::fs::write(&file, "PEM").unwrap();
        assert_eq!(find(Some(file.as_os_str())), Some(file));
        assert_eq!(find(Some(OsStr::new(""))), find(None));
    }
}
