//! A call from one workload to another, through both proxies.

use super::SimulatedProxy;
use super::answer::{Endpoint, Sent};
use super::refusal::Refusal;
use super::request::{Connection, Request};

/// A proxy, and the URI SANs of its certificate.
#[derive(Clone, Copy)]
pub struct Workload<'a> {
    pub proxy: &'a SimulatedProxy,
    pub uris: &'a [String],
}

/// How far a call got. A missing part was not reached.
#[derive(Debug, Clone, PartialEq)]
pub struct Called {
    pub outbound: Sent,
    /// The endpoint that `dice` selected.
    pub endpoint: Option<Endpoint>,
    /// `None` when the endpoint is not a known proxy.
    pub inbound: Option<Sent>,
}

/// `at` looks up the workload of an endpoint.
pub fn call<'a>(
    from: Workload<'_>,
    at: impl Fn(&Endpoint) -> Option<Workload<'a>>,
    address: &str,
    port: u16,
    request: &Request,
) -> Result<Called, Refusal> {
    let outbound = from.proxy.outbound(address, port, request, &Connection::default())?;
    let forwarded = outbound.forwarded();
    let Some(endpoint) = forwarded.and_then(|forwarded| forwarded.endpoint(request.dice)).cloned() else {
        return Ok(Called { outbound, endpoint: None, inbound: None });
    };
    let Some(callee) = at(&endpoint) else {
        return Ok(Called { outbound, endpoint: Some(endpoint), inbound: None });
    };
    let mut arriving = request.clone();
    if let Some(http) = forwarded.and_then(|forwarded| forwarded.http.as_ref()) {
        arriving.authority.clone_from(&http.authority);
        arriving.path.clone_from(&http.path);
        arriving.headers.clone_from(&http.headers);
    }
    let mut connection = Connection::default();
    if let Some(tls) = &endpoint.tls {
        tls.check(callee.uris, None)?;
        connection.tls = Some(tls.peer(from.uris.to_vec(), None));
    }
    let inbound = callee.proxy.inbound(&endpoint.address, endpoint.port, &arriving, &connection)?;
    if endpoint.tls.is_some() && !inbound.ends_tls {
        let reason =
            "it passes TLS through, and the application behind it has another identity than expected".to_owned();
        return Err(Refusal::Handshake { with: inbound.listener, reason });
    }
    Ok(Called { outbound, endpoint: Some(endpoint), inbound: Some(inbound) })
}
