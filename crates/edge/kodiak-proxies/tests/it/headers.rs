//! Authentication of streams by their headers.

use std::time::Duration;

use kodiak_ads::{Closing, Credential, Proxies as _};
use kodiak_proxies::Authn;
use kodiak_tokens::DataplaneClaims;
use serde_json::json;

use crate::bed::Bed;

fn admitted(bed: &Bed, token: Option<&str>) -> Result<(), Closing> {
    bed.registry.admit_headers(&Credential(token.map(str::to_owned)))
}

#[tokio::test(start_paused = true)]
async fn valid_token_opens_a_stream_whatever_it_binds() {
    let bed = Bed::start().await;
    bed.put(json!({ "type": "Mesh", "name": "other" })).await;
    let bound = |mesh: &str| DataplaneClaims { mesh: mesh.to_owned(), ..DataplaneClaims::default() };
    admitted(&bed, Some(&bed.token(&bound("default")))).unwrap();
    admitted(&bed, Some(&bed.token_in("other", &bound("other")))).unwrap();
    // A token without a mesh is tried with the keys of all meshes.
    admitted(&bed, Some(&bed.token(&DataplaneClaims::default()))).unwrap();
    admitted(&bed, Some(&bed.token_in("other", &DataplaneClaims::default()))).unwrap();
}

#[tokio::test(start_paused = true)]
async fn token_with_an_invalid_signature_is_rejected_by_its_headers() {
    let bed = Bed::start().await;
    bed.put(json!({ "type": "Mesh", "name": "other" })).await;
    let good = bed.token(&DataplaneClaims { mesh: "default".to_owned(), ..DataplaneClaims::default() });
    // Its claims choose a key that did not sign it.
    let foreign = bed.token_in("other", &DataplaneClaims { mesh: "default".to_owned(), ..DataplaneClaims::default() });
    let changed = format!("{}AAAA", &good[..good.len() - 4]);
    for token in [None, Some(""), Some("x"), Some("a.b.c"), Some(&foreign), Some(&changed)] {
        let refused = admitted(&bed, token).unwrap_err();
        assert_eq!(refused.code, Closing::UNAUTHENTICATED, "{token:?}");
        assert!(refused.message.starts_with("authentication failed"), "{refused:?}");
    }
    admitted(&bed, Some(&good)).unwrap();
    bed.turn_clock(Duration::from_hours(2000));
    assert_eq!(admitted(&bed, Some(&good)).unwrap_err().code, Closing::UNAUTHENTICATED);
}

#[tokio::test(start_paused = true)]
async fn no_token_is_needed_without_proxy_authentication() {
    let bed = Bed::start_with(|settings| settings.authn = Authn::None).await;
    admitted(&bed, None).unwrap();
}
