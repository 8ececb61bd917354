//! The file with the authorities that this machine believes. Envoy verifies with it what is outside of the mesh, where
//! nothing else is said.

use std::ffi::OsStr;
use std::path::{Path, PathBuf, absolute};

/// Names the file, for this and many other programs.
pub const VARIABLE: &str = "SSL_CERT_FILE";

/// Where distributions put it, the most common first.
const PLACES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What [`VARIABLE`] says is the only place where it is set. `None` where there is no file.
pub fn find(variable: Option<&OsStr>) -> Option<PathBuf> {
    match variable.filter(|value| !value.is_empty()) {
        Some(file) => first([Path::new(file)]),
        None => first(PLACES.map(Path::new)),
    }
}

/// Envoy runs in another folder, so the path is from the root.
fn first<'a>(places: impl IntoIterator<Item = &'a Path>) -> Option<PathBuf> {
    places.into_iter().find(|place| place.is_file()).and_then(|place| absolute(place).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_file_that_is_there_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let [none, one, two] = ["none", "one", "two"].map(|name| folder.path().join(name));
        std::fs::write(&one, "PEM").unwrap();
        std::fs::write(&two, "PEM").unwrap();
        assert_eq!(first([&*none, folder.path(), &*one, &*two]), Some(one));
        assert_eq!(first([&*none]), None);
        assert_eq!(first([Path::new("Cargo.toml")]).as_deref(), Some(&*absolute("Cargo.toml").unwrap()));
    }

    #[test]
    fn a_variable_that_names_a_file_is_the_only_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        assert_eq!(find(Some(file.as_os_str())), None);
        std::fs::write(&file, "PEM").unwrap();
        assert_eq!(find(Some(file.as_os_str())), Some(file));
        assert_eq!(find(Some(OsStr::new(""))), find(None));
    }
}
