//! `POST /plaintext-callers`: the sidecar process reports who called its proxy without mTLS.

use http::{HeaderMap, StatusCode};
use kodiak_ads::Reply;
use kodiak_model::ProxyKey;
use kodiak_traffic::PlaintextReport;
use serde::Deserialize;
use serde_json::json;

use crate::{
    Registry,
    drain::credential_of,
    port::{empty, json_reply, text},
};

/// Most callers of one report. A sidecar process counts fewer between two reports.
const MOST_CALLERS: usize = 4096;

#[derive(Deserialize)]
struct Request {
    mesh: String,
    name: String,
}

impl Registry {
    /// Needs a token with which the proxy may connect. The report may be delivered twice, if its response was lost.
    pub(crate) fn plaintext_callers(&self, headers: &HeaderMap, body: &[u8]) -> Reply {
        let wrong = |error| {
            let reason = format!("the request is not {{mesh, name, callers, dropped}}: {error}");
            text(StatusCode::BAD_REQUEST, reason)
        };
        let Request { mesh, name } = match serde_json::from_slice(body) {
            Ok(request) => request,
            Err(error) => return wrong(error),
        };
        let key = ProxyKey::new(&mesh, &name);
        let admitted = self.identify(&key, &credential_of(headers)).and_then(|proof| self.check(&key, &proof, None));
        if let Err(refused) = admitted {
            return text(StatusCode::UNAUTHORIZED, refused.message);
        }
        if !self.observes_traffic() {
            return empty(StatusCode::NOT_FOUND);
        }
        let report: PlaintextReport = match serde_json::from_slice(body) {
            Ok(report) => report,
            Err(error) => return wrong(error),
        };
        if report.callers.len() > MOST_CALLERS {
            return text(StatusCode::BAD_REQUEST, format!("the report has more than {MOST_CALLERS} callers"));
        }
        self.0.traffic.plaintext_callers(&key, &report, self.now());
        json_reply(&json!({}))
    }
}
