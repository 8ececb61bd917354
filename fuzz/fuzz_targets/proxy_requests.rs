//! HTTP requests of proxies: the first byte selects `/bootstrap` or `/drain`, the rest is the body.
//!
//! Authentication is disabled, so that inputs reach the code after it.
#![no_main]

use std::{net::SocketAddr, sync::LazyLock};

use bytes::Bytes;
use http::{Request, StatusCode};
use kodiak_ads::Proxies as _;
use kodiak_catalog::{Catalog, Target};
use kodiak_kinds::kinds;
use kodiak_model::{Place, yaml};
use kodiak_proxies::{Authn, ProxySettings, Registry};
use kodiak_store::{Backend, Store, StoreConfig};
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use tokio::{runtime::Runtime, sync::mpsc};

/// A response contains the request a few times at most: in the node metadata, and with indentation.
const LARGEST_ANSWER: usize = 64 * 1024;
const ANSWER_PER_BYTE: usize = 32;

struct Port {
    runtime: Runtime,
    registry: Registry,
}

static PORT: LazyLock<Port> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let registry = runtime.block_on(async {
        let store = Store::open(StoreConfig::new(Backend::Memory)).await.expect("a store in memory opens");
        let settings =
            kodiak_catalog::CatalogSettings { place: Place::Zone { name: "east".to_owned() }, unsafe_delete: true };
        let catalog = Catalog::new(store, settings);
        let kind = kinds().by_name("Mesh").expect("meshes are a kind");
        let target = Target { kind, mesh: "", name: "default" };
        let mesh = json!({ "type": "Mesh", "name": "default" });
        catalog.put(target, mesh).await.expect("a mesh without settings is good");
        let mut settings = ProxySettings::new("fuzz");
        settings.authn = Authn::None;
        settings.ca = Some("CA".to_owned());
        settings.server_names = vec!["localhost".to_owned()];
        Registry::new(catalog, settings, mpsc::unbounded_channel().0)
    });
    Port { runtime, registry }
});

fuzz_target!(|data: &[u8]| {
    let Some((first, body)) = data.split_first() else { return };
    let path = if first % 2 == 0 { "/bootstrap" } else { "/drain" };
    let request = Request::post(path).header("host", "localhost").body(Bytes::copy_from_slice(body));
    let request = request.expect("the request is well formed");
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let reply = PORT.runtime.block_on(PORT.registry.answer(request, peer));
    assert!(!reply.status().is_server_error(), "{}", reply.status());
    assert!(reply.body().len() <= LARGEST_ANSWER + ANSWER_PER_BYTE * body.len(), "{} bytes", reply.body().len());
    if path == "/bootstrap" && reply.status() == StatusCode::OK {
        let text = std::str::from_utf8(reply.body()).expect("a bootstrap is text");
        yaml::parse(text).expect("a bootstrap is YAML");
    }
});
