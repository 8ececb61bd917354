//! A request whose token does not cover a proxy changes nothing of that proxy: every endpoint with every wrong token.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use http::StatusCode;
use kodiak_ads::{HealthHello, Hello, LoadHello, Proxies as _};
use kodiak_proxies::TrafficSettings;
use kodiak_tokens::DataplaneClaims;
use kodiak_xds_stream::Counters;
use serde_json::{Value, json};

use crate::bed::{Bed, hello, key, report, snapshot};

const TRAFFIC: TrafficSettings =
    TrafficSettings { interval: Duration::from_secs(10), flush_interval: Duration::from_secs(30), max_edges: 16 };
const PAYMENTS: &str = r#"{"mesh":"default","name":"payments-1"}"#;
const PAYMENTS_HOSTNAME: &str = r#"{"mesh":"default","name":"payments-1","hostname":"web.mesh"}"#;

/// Of `payments-1`.
fn dataplane(service: &str) -> Value {
    let mut document = crate::bed::dataplane("payments-1");
    document["networking"]["inbound"][0]["tags"]["kuma.io/service"] = json!(service);
    document
}

fn metadata(resource: Option<&Value>) -> Value {
    let mut metadata = json!({ "dataplane.admin.port": "9901" });
    if let Some(resource) = resource {
        metadata["dataplane.resource"] = json!(resource.to_string());
    }
    metadata
}

fn for_service(service: &str) -> DataplaneClaims {
    let tags = BTreeMap::from([("kuma.io/service".to_owned(), vec![service.to_owned()])]);
    DataplaneClaims { tags, ..DataplaneClaims::default() }
}

/// Tokens that do not cover `payments-1`, with their names.
async fn wrong_tokens(bed: &Bed) -> Vec<(&'static str, Option<String>)> {
    let of_name = |name: &str| DataplaneClaims { name: name.to_owned(), ..DataplaneClaims::default() };
    let other_mesh = DataplaneClaims { mesh: "other".to_owned(), ..DataplaneClaims::default() };
    let of_workload = DataplaneClaims { workload: "web".to_owned(), ..DataplaneClaims::default() };
    let expired = bed.token(&DataplaneClaims::default());
    bed.turn_clock(Duration::from_hours(1001));
    bed.put(json!({ "type": "Mesh", "name": "other" })).await;
    let revoked = bed.token(&DataplaneClaims::default());
    let payload = base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(revoked.split('.').nth(1).unwrap()).unwrap();
    let id = serde_json::from_slice::<Value>(&payload).unwrap()["jti"].as_str().unwrap().to_owned();
    let list = "dataplane-token-revocations-default";
    bed.put(json!({ "type": "Secret", "mesh": "default", "name": list, "data": BASE64_STANDARD.encode(id) })).await;
    vec![
        ("none", None),
        ("nonsense", Some("nonsense".to_owned())),
        ("of another mesh", Some(bed.token(&other_mesh))),
        ("signed by another mesh", Some(bed.token_in("other", &DataplaneClaims::default()))),
        ("of another name", Some(bed.token(&of_name("web-1")))),
        ("of another service", Some(bed.token(&for_service("web")))),
        ("of another workload", Some(bed.token(&of_workload))),
        ("expired", Some(expired)),
        ("revoked", Some(revoked)),
    ]
}

/// Sends a request of each kind as `payments-1`, and returns whether it was admitted.
async fn send_all(bed: &Bed, token: Option<&str>, resource: Option<&Value>) -> Vec<(&'static str, bool)> {
    let authorization: Vec<(&str, &str)> = token.map(|token| ("authorization", token)).into_iter().collect();
    let drained = bed.post("/drain", &authorization, PAYMENTS).await.0;
    let caller = json!({ "port": 80, "address": "192.0.2.1", "requests": 1 });
    let callers = json!({ "mesh": "default", "name": "payments-1", "callers": [caller] }).to_string();
    let reported = bed.post("/plaintext-callers", &authorization, &callers).await.0;
    let resolved = bed.post("/resolve", &authorization, PAYMENTS_HOSTNAME).await.0;
    let mut request = json!({ "mesh": "default", "name": "payments-1", "dataplaneToken": token });
    if let Some(resource) = resource {
        request["dataplaneResource"] = json!(resource.to_string());
    }
    let started = bed.post("/bootstrap", &[], &request.to_string()).await.0;
    let hello = hello("default.payments-1", &metadata(resource), token.map(str::to_owned));
    let Hello { node, credential, peer, .. } = hello.clone();
    let health = HealthHello { node: node.clone(), credential: credential.clone(), peer };
    let load = LoadHello { node, credential, peer };
    vec![
        ("/drain", drained == StatusCode::OK),
        ("/plaintext-callers", reported == StatusCode::OK),
        ("/resolve", resolved != StatusCode::UNAUTHORIZED),
        ("/bootstrap", started == StatusCode::OK),
        ("ADS", bed.registry.connect(hello).await.is_ok()),
        ("HDS", bed.registry.connect_health(health).await.is_ok()),
        ("LRS", bed.registry.connect_load(load).await.is_ok()),
    ]
}

#[tokio::test(start_paused = true)]
async fn token_of_another_proxy_changes_nothing() {
    let bed = Bed::start_with(|settings| {
        settings.traffic = Some(TRAFFIC);
        // Insights of open streams are written again at half of this.
        settings.idle_timeout = Duration::from_hours(1000);
    })
    .await;
    let tokens = wrong_tokens(&bed).await;
    bed.put(dataplane("payments")).await;
    let own = bed.token(&for_service("payments"));
    let is_ready = || bed.dataplane("payments-1").unwrap().inbounds()[0].is_ready();
    let mut session = bed.registry.connect(hello("default.payments-1", &metadata(None), Some(own.clone()))).await;
    let session = session.as_mut().map_err(|closing| closing.message.clone()).unwrap();
    bed.registry.publish(&key("payments-1"), snapshot(1), "".into(), Vec::new());
    report(session, &Counters::default(), Some(1));
    for drained in [false, true] {
        if drained {
            assert_eq!(bed.post("/drain", &[("authorization", &own)], PAYMENTS).await.0, StatusCode::OK);
        }
        bed.pass(Duration::from_mins(1)).await;
        assert_eq!(is_ready(), !drained);
        bed.events();
        for (name, token) in &tokens {
            for resource in [None, Some(dataplane("payments")), Some(dataplane("web"))] {
                let case = format!("{name}, {resource:?}, drained: {drained}");
                let before = bed.catalog.store().snapshot();
                let admitted = send_all(&bed, token.as_deref(), resource.as_ref()).await;
                assert!(admitted.iter().all(|(_, admitted)| !admitted), "{case}: {admitted:?}");
                // Long enough for everything that happens later.
                bed.pass(Duration::from_mins(1)).await;
                let after = bed.catalog.store().snapshot();
                let changed: Vec<_> = after.iter().filter(|record| before.get(&record.key) != Some(*record)).collect();
                assert_eq!((changed, after.revision()), (vec![], before.revision()), "{case}");
                assert_eq!(is_ready(), !drained, "{case}");
                assert_eq!(bed.events(), Vec::<String>::new(), "{case}");
            }
        }
    }
    // With its own token, each of them is admitted.
    let admitted = send_all(&bed, Some(&own), None).await;
    assert!(admitted.iter().all(|(_, admitted)| *admitted), "{admitted:?}");
}
