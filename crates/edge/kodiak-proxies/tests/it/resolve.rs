//! `POST /resolve`.

use http::StatusCode;
use kodiak_tokens::DataplaneClaims;
use kodiak_xds::{hostnames::HostnameIndex, input::DnsRecord};
use serde_json::json;

use crate::bed::{Bed, dataplane};

fn asks(hostname: &str) -> String {
    json!({ "mesh": "default", "name": "web-1", "hostname": hostname }).to_string()
}

#[tokio::test(start_paused = true)]
async fn proxy_resolves_hostnames_of_its_mesh() {
    let bed = Bed::start().await;
    bed.put(dataplane("web-1")).await;
    let token = bed.token(&DataplaneClaims::default());
    let ask = async |hostname: &str| bed.post("/resolve", &[("authorization", &token)], &asks(hostname)).await;
    let missing = (StatusCode::NOT_FOUND, String::new());
    assert_eq!(ask("payments.mesh").await, missing);
    let mut hostnames = HostnameIndex::default();
    hostnames.add(&DnsRecord { name: "payments.mesh".into(), address: [240, 0, 0, 1].into() });
    bed.registry.publish_hostnames("other".into(), Some(hostnames.clone()));
    assert_eq!(ask("payments.mesh").await, missing, "of another mesh");
    bed.registry.publish_hostnames("default".into(), Some(hostnames));
    for hostname in ["payments.mesh", "Payments.MESH"] {
        assert_eq!(ask(hostname).await, (StatusCode::OK, r#"{"address":"240.0.0.1"}"#.to_owned()));
    }
    assert_eq!(ask("orders.mesh").await, missing);
    bed.registry.publish_hostnames("default".into(), None);
    assert_eq!(ask("payments.mesh").await, missing);
}

#[tokio::test(start_paused = true)]
async fn invalid_requests_are_refused() {
    let bed = Bed::start().await;
    let token = bed.token(&DataplaneClaims::default());
    let of = async |body: &str| bed.post("/resolve", &[("authorization", &token)], body).await.0;
    assert_eq!(of("{}").await, StatusCode::BAD_REQUEST);
    assert_eq!(of(&asks("payments.mesh")).await, StatusCode::UNAUTHORIZED, "there is no such Dataplane");
}
