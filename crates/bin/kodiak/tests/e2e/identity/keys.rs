//! Private keys of CAs are in no output, and not in the store file.

use std::fs;

use super::{Bed, generated};
use crate::harness::{MESH, Mtls};

#[tokio::test(flavor = "multi_thread")]
async fn private_keys_of_cas_are_in_no_output() {
    let Some(bed) = Bed::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    bed.identity("identity", &generated("keys.local")).await;
    bed.until_issued("keys.local").await;
    let mut keys = Vec::new();
    for secret in ["identity-private-key".to_owned(), format!("{MESH}.ca-builtin-key-ca-1")] {
        let pem = bed.mesh.secret_data(&secret).await;
        // The lines in the middle are of this key alone.
        let lines: Vec<&str> = pem.lines().filter(|line| !line.starts_with("-----")).collect();
        keys.extend(lines[1..].iter().filter(|line| line.len() > 20).map(|line| (*line).to_owned()));
    }
    assert!(keys.len() > 10, "{}", keys.len());
    let control_plane = &bed.mesh.control_plane;
    let mut outputs =
        vec![("log".to_owned(), control_plane.log().printed()), ("metrics".to_owned(), control_plane.metrics().await)];
    let of_mesh =
        ["", "/meshidentities", "/meshtrusts", "/meshservices", "/dataplanes", "/dataplanes/_overview", "/_identities"];
    let of_proxy =
        ["", "/_overview", "/_config", "/_status", "/_layout", "/_policies", "/_rules", "/xds", "/stats", "/clusters"];
    let paths = of_mesh.iter().map(|path| format!("/meshes/{MESH}{path}"));
    let paths = paths.chain(of_proxy.iter().map(|path| format!("/meshes/{MESH}/dataplanes/web{path}")));
    for path in paths.chain(["/config".to_owned(), "/global-insight".to_owned()]) {
        outputs.push((path.clone(), control_plane.get(&path).await.fine().text));
    }
    let dump = bed.web.admin("/config_dump?include_eds").await.unwrap().fine().text;
    outputs.push(("config dump of Envoy".to_owned(), dump));
    for (output, text) in &outputs {
        assert!(!text.is_empty(), "{output}");
        for key in &keys {
            assert!(!text.contains(key.as_str()), "{output} has a private key of a CA");
        }
    }
    // Secrets are sealed: neither the key nor its base64 is in the file.
    let file = fs::read(bed.mesh.folder().join("kodiak.redb")).unwrap();
    assert!(file.windows(10).any(|bytes| bytes == b"keys.local"), "the file has the MeshIdentity");
    for key in &keys {
        assert!(!file.windows(key.len()).any(|bytes| bytes == key.as_bytes()), "the store has a private key");
    }
    assert!(!file.windows(11).any(|bytes| bytes == b"PRIVATE KEY"));
}
