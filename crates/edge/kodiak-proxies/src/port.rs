//! The proxy port's interface to the registry, and the responses of its HTTP requests.

use std::{net::SocketAddr, time::Instant};

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use kodiak_ads::{
    Closing, Credential, HealthHello, HealthSession, Hello, LoadHello, LoadSession, Proxies, Reply, Session,
    proxies::Answer,
};
use serde_json::Value;

use crate::Registry;

const BOOTSTRAP: &str = "/bootstrap";
const DRAIN: &str = "/drain";
const PLAINTEXT_CALLERS: &str = "/plaintext-callers";
const RESOLVE: &str = "/resolve";
/// Many times the size of a Dataplane, a certificate and a token.
const LONGEST_BODY: usize = 1024 * 1024;

impl Proxies for Registry {
    fn admit_headers(&self, credential: &Credential) -> Result<(), Closing> {
        self.verify_headers(credential)
    }

    fn connect(&self, hello: Hello) -> Answer<'_, Result<Session, Closing>> {
        Box::pin(self.admit(hello))
    }

    fn connect_health(&self, hello: HealthHello) -> Answer<'_, Result<HealthSession, Closing>> {
        Box::pin(async move { self.admit_health(&hello) })
    }

    fn connect_load(&self, hello: LoadHello) -> Answer<'_, Result<LoadSession, Closing>> {
        Box::pin(async move { self.admit_load(&hello) })
    }

    fn answer(&self, request: Request<Bytes>, _: SocketAddr) -> Answer<'_, Reply> {
        Box::pin(async move {
            let path = match request.uri().path() {
                "/bootstrap" => BOOTSTRAP,
                "/drain" => DRAIN,
                "/plaintext-callers" => PLAINTEXT_CALLERS,
                "/resolve" => RESOLVE,
                _ => return empty(StatusCode::NOT_FOUND),
            };
            let started = Instant::now();
            let reply = self.answer_at(path, &request).await;
            if let Some(metrics) = &self.0.settings.port_metrics {
                metrics.answered(path, reply.status().as_u16(), reply.body().len(), started.elapsed());
            }
            reply
        })
    }
}

impl Registry {
    async fn answer_at(&self, path: &'static str, request: &Request<Bytes>) -> Reply {
        if request.method() != Method::POST {
            return text(StatusCode::METHOD_NOT_ALLOWED, format!("{path} takes POST only"));
        }
        if request.body().len() > LONGEST_BODY {
            return text(StatusCode::PAYLOAD_TOO_LARGE, format!("the request is longer than {LONGEST_BODY} bytes"));
        }
        match path {
            DRAIN => self.drain(request.headers(), request.body()).await,
            PLAINTEXT_CALLERS => self.plaintext_callers(request.headers(), request.body()),
            RESOLVE => self.resolve(request.headers(), request.body()),
            _ => self.bootstrap(request).await,
        }
    }
}

pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> Reply {
    reply(status, "text/plain", text.into())
}

pub(crate) fn json_reply(json: &Value) -> Reply {
    reply(StatusCode::OK, "application/json", json.to_string())
}

pub(crate) fn empty(status: StatusCode) -> Reply {
    let mut reply = Reply::default();
    *reply.status_mut() = status;
    reply
}

pub(crate) fn reply(status: StatusCode, content_type: &'static str, body: String) -> Reply {
    let mut reply = Reply::new(body.into());
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    reply
}
