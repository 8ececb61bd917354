//! Rollouts and proxies that cannot take part: a stream that broke, a client that is stopped, a proxy that rejects a step, and
//! a CA that has expired. No request fails that could be answered.

use std::{fs, time::Duration};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use kodiak_crypto::{CaKeyType, KeyPair, RootCaParams, root_ca};
use serde_json::{Value, json};

use super::{Bed, announced, root};
use crate::harness::{Load, MESH, Mtls, Setup, eventually, expect, get, path};

const REVOCATIONS: &str = "dataplane-token-revocations-shop";

impl Bed {
    /// Breaks the stream of a proxy, which cannot connect again until [`Self::admit`].
    async fn refuse(&self, proxy: &str) {
        let token = fs::read_to_string(self.mesh.folder().join(proxy).join("token")).unwrap();
        let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        self.mesh.secret(REVOCATIONS, claims["jti"].as_str().unwrap()).await;
        eventually(&format!("{proxy} is disconnected"), async || {
            let rollout = self.identities().await;
            let found = rollout["proxies"].as_array().into_iter().flatten().find(|each| each["name"] == proxy);
            expect(found.is_some_and(|found| found["connected"] == false), rollout)
        })
        .await;
    }

    async fn admit(&self) {
        self.mesh.control_plane.delete(&path("Secret", REVOCATIONS)).await;
    }

    async fn identities(&self) -> Value {
        self.mesh.control_plane.get(&format!("/meshes/{MESH}/_identities")).await.fine().json()
    }

    /// Whether one more handshake between the proxies succeeds: each connection to this outbound is one.
    async fn is_made(&self) -> bool {
        get(self.web.outbound_tcp(), "/").await.is_ok_and(|answer| answer.status == 200)
    }

    /// Until the rollout is over, this backend signs, and both proxies have acknowledged that.
    async fn until_signed_by(&self, backend: &str) {
        eventually(&format!("{backend} signs, and the rollout is over"), async || {
            let found = self.identities().await;
            let rollout = &found["rollout"];
            let step = rollout["current"].as_str().unwrap();
            let is_over = rollout["target"] == step && rollout["phase"].is_null();
            let signs = step.starts_with(&format!("accept=mtls call=mtls signer={backend}"));
            let acknowledged = found["proxies"].as_array().unwrap().iter().all(|proxy| proxy["acknowledged"] == true);
            expect(is_over && signs && acknowledged, found)
        })
        .await;
    }

    /// Until the next step waits for a proxy, with a reason that contains this text.
    async fn until_waiting(&self, proxy: &str, reason: &str) -> Value {
        eventually(&format!("the rollout waits for {proxy}"), async || {
            let rollout = self.identities().await["rollout"].clone();
            let waiting = rollout["waiting"].as_array().cloned().unwrap_or_default();
            let is_it = |each: &Value| each["proxy"] == proxy && each["reason"].as_str().unwrap().contains(reason);
            expect(waiting.iter().any(is_it), &rollout)?;
            Ok(rollout)
        })
        .await
    }
}

/// A CA that expires soon.
fn short_ca(uri: &str) -> KeyPair {
    let params = RootCaParams {
        common_name: "short",
        expires_after: Duration::from_secs(20),
        key: CaKeyType::P256,
        uri_san: Some(uri),
        now: Timestamp::now(),
    };
    root_ca(&params).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_whose_stream_broke_is_not_overtaken() {
    let setup = Setup { settings: &["meshService.connectionGracePeriod=5m"], ..Setup::default() };
    let Some(bed) = Bed::start_with(Mtls::Off, setup).await else { return };
    let load = bed.load();
    load.go_on(30).await;
    bed.refuse("web").await;
    bed.mesh.set_mtls(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await;
    bed.mesh.until_acknowledged(&["api"], "accept=both call=plain signer=ca-1 trust=ca-1").await;
    bed.until_waiting("web", "lost its connection").await;
    // It sends plain text still.
    load.go_on(100).await;
    bed.admit().await;
    bed.mesh.until_acknowledged(&["web", "api"], "accept=mtls call=mtls signer=ca-1 trust=ca-1").await;
    load.go_on(50).await;
    load.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_client_comes_back_with_a_certificate_that_is_still_trusted() {
    let setup = Setup { settings: &["meshService.connectionGracePeriod=1s"], ..Setup::default() };
    let [one, two] = ["ca-1", "ca-2"].map(Mtls::builtin);
    let Some(bed) = Bed::start_with(Mtls::Strict(vec![one.clone(), two.clone()]), setup).await else { return };
    bed.mesh.until_acknowledged(&["web", "api"], "accept=mtls call=mtls signer=ca-1 trust=ca-1,ca-2").await;
    let load = Load::between([&bed.web]);
    load.go_on(30).await;
    let stopped = bed.web.stall();
    bed.refuse("web").await;
    bed.mesh.set_mtls(Mtls::Strict(vec![two.clone(), one])).await;
    bed.mesh.until_acknowledged(&["api"], "accept=mtls call=mtls signer=ca-2 trust=ca-1,ca-2").await;
    bed.mesh.set_mtls(Mtls::Strict(vec![two])).await;
    let rollout = bed.until_waiting("web", "old trust is kept until").await;
    assert_eq!(rollout["phase"], "Remove", "{rollout}");
    assert!(rollout["oldTrustUntil"].is_string(), "{rollout}");
    bed.admit().await;
    drop(stopped);
    // Its certificate is of the old CA until it has heard of the new one.
    load.go_on(100).await;
    bed.mesh.until_acknowledged(&["web", "api"], "accept=mtls call=mtls signer=ca-2 trust=ca-2").await;
    load.go_on(50).await;
    load.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn step_that_envoy_rejects_can_be_left() {
    let Some(bed) = Bed::start(Mtls::Off).await else { return };
    bed.mesh.until_acknowledged(&["web", "api"], "").await;
    let load = bed.load();
    load.go_on(30).await;
    // Our validation does not read Lua.
    let filter = json!({
        "name": "envoy.filters.http.lua",
        "typedConfig": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
            "defaultSourceCode": { "inlineString": "this is not Lua" },
        },
    });
    let router = json!({ "name": "envoy.filters.http.router", "origin": "inbound" });
    let broken = json!({ "httpFilter": { "operation": "AddBefore", "match": router, "value": filter.to_string() } });
    let patch = json!({
        "targetRef": { "kind": "Dataplane", "name": "web" },
        "default": { "appendModifications": [broken] },
    });
    bed.mesh.put("MeshProxyPatch", "broken", &patch).await;
    bed.mesh.set_mtls(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await;
    bed.mesh.until_acknowledged(&["api"], "accept=both call=plain signer=ca-1 trust=ca-1").await;
    // Envoy's own error.
    bed.until_waiting("web", "script load error").await;
    load.go_on(30).await;
    bed.mesh.set_mtls(Mtls::Off).await;
    eventually("the rollout is back, although web acknowledged nothing", async || {
        let rollout = bed.identities().await["rollout"].clone();
        expect(rollout["current"] == rollout["target"] && rollout["phase"].is_null(), rollout)
    })
    .await;
    load.go_on(30).await;
    bed.mesh.delete("MeshProxyPatch", "broken").await;
    bed.mesh.set_mtls(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await;
    bed.mesh.until_acknowledged(&["web", "api"], "accept=mtls call=mtls signer=ca-1 trust=ca-1").await;
    load.go_on(50).await;
    load.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_ca_is_replaced() {
    let Some(bed) = Bed::start(Mtls::Off).await else { return };
    let pair = short_ca(&format!("spiffe://{MESH}"));
    bed.mesh.secret("short-ca", &pair.cert_pem).await;
    bed.mesh.secret("short-key", pair.key_pem.expose()).await;
    let conf = json!({ "cert": { "secret": "short-ca" }, "key": { "secret": "short-key" } });
    let short = json!({ "name": "short", "type": "provided", "conf": conf });
    bed.mesh.set_mtls(Mtls::Strict(vec![short.clone()])).await;
    bed.until_signed_by("short").await;
    eventually("the CA has expired", async || expect(!bed.is_made().await, "a connection is made")).await;
    // One proxy connects again meanwhile, so its certificate has to be issued again, which fails.
    let refused = bed.mesh.control_plane.metric("kodiak_xds_streams_refused_total").await;
    bed.refuse("web").await;
    bed.admit().await;
    eventually("web is connected again", async || {
        let proxies = bed.mesh.control_plane.metric("kodiak_xds_proxies").await;
        expect(proxies == 2, (proxies, refused))
    })
    .await;
    bed.mesh.set_mtls(Mtls::Strict(vec![Mtls::builtin("ca-2"), short])).await;
    bed.until_signed_by("ca-2").await;
    eventually("connections are made again", async || expect(bed.is_made().await, "it fails")).await;
    let load = bed.load();
    bed.mesh.set_mtls(Mtls::Strict(vec![Mtls::builtin("ca-2")])).await;
    bed.mesh.until_acknowledged(&["web", "api"], "accept=mtls call=mtls signer=ca-2 trust=ca-2").await;
    load.go_on(50).await;
    load.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_ca_of_an_identity_is_replaced() {
    let Some(bed) = Bed::start(Mtls::Off).await else { return };
    let store = async |pair: &KeyPair| {
        bed.mesh.secret("own-ca", &pair.cert_pem).await;
        bed.mesh.secret("own-key", pair.key_pem.expose()).await;
    };
    store(&short_ca("spiffe://short.local")).await;
    let source = |name: &str| json!({ "type": "Secret", "secretRef": { "kind": "Secret", "name": name } });
    let mut identity = announced("short.local");
    identity["provider"] = json!({ "type": "Bundled", "bundled": {
        "insecureAllowSelfSigned": true,
        "ca": { "certificate": source("own-ca"), "privateKey": source("own-key") },
    }});
    bed.identity("identity", &identity).await;
    bed.until_issued("short.local").await;
    eventually("the CA has expired", async || expect(!bed.is_made().await, "a connection is made")).await;
    bed.refuse("web").await;
    bed.admit().await;
    store(&root("short.local")).await;
    eventually("connections are made again", async || expect(bed.is_made().await, bed.identities().await)).await;
    bed.until_settled().await;
    let load = bed.load();
    load.go_on(50).await;
    load.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ca_whose_file_was_removed_is_replaced_under_load() {
    let files = tempfile::tempdir().unwrap();
    let setting: &'static str = format!("general.dataSourceFolder={}", files.path().display()).leak();
    let setup = Setup { settings: vec![setting].leak(), ..Setup::default() };
    let Some(bed) = Bed::start_with(Mtls::Off, setup).await else { return };
    let pair = root(MESH);
    let (cert, key) = (files.path().join("own.crt"), files.path().join("own.key"));
    fs::write(&cert, &pair.cert_pem).unwrap();
    fs::write(&key, pair.key_pem.expose()).unwrap();
    let own = json!({
        "name": "own", "type": "provided", "conf": { "cert": { "file": cert }, "key": { "file": key } },
    });
    bed.mesh.set_mtls(Mtls::Strict(vec![own.clone()])).await;
    bed.until_signed_by("own").await;
    let load = bed.load();
    load.go_on(30).await;
    fs::remove_file(&cert).unwrap();
    fs::remove_file(&key).unwrap();
    // A proxy that connects again has the certificate of before, and the control plane cannot issue it another.
    bed.refuse("web").await;
    bed.admit().await;
    load.go_on(30).await;
    bed.mesh.set_mtls(Mtls::Strict(vec![Mtls::builtin("ca-2"), own])).await;
    bed.until_signed_by("ca-2").await;
    load.go_on(50).await;
    bed.mesh.set_mtls(Mtls::Strict(vec![Mtls::builtin("ca-2")])).await;
    bed.mesh.until_acknowledged(&["web", "api"], "accept=mtls call=mtls signer=ca-2 trust=ca-2").await;
    load.go_on(50).await;
    load.end().await;
}
