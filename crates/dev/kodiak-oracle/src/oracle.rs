//! Calls through the Envoys of a mesh.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Result;
use kodiak_testkit::simulate::{self, Connection, Endpoint, Refusal, Request, SimulatedProxy, TlsPeer};
use kodiak_xds_stream::ResourceSet;

use crate::Certificate;
use crate::envoy::Envoy;
use crate::requests;

/// ALPN of callers in the mesh.
const ALPN: &str = "kuma";

/// Envoys of a mesh.
pub struct Oracle {
    envoys: BTreeMap<String, Envoy>,
    /// Envoys by the addresses of their inbounds.
    at: BTreeMap<(String, u16), String>,
}

/// Caller of an inbound.
#[derive(Debug, Clone, Copy)]
pub enum Caller<'a> {
    /// A proxy with its certificate; in plain text if it has none.
    Proxy(&'a str),
    PlainText,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// One request at least gets through.
    Answered,
    Refused(Reason),
    /// A setting decides that the simulator does not support.
    Unknown(String),
}

/// Why no request gets through: the step that one got to at most. In the order of the steps.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The client has no listener for the address.
    NotConfigured,
    NoRoute,
    NoEndpoints,
    /// The client's Envoy answers itself, with this status.
    Responded(u16),
    /// The server has no listener or filter chain for the connection.
    NoInbound,
    Tls(String),
    Denied,
}

/// One request, and one of the endpoints that its cluster has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// `None` if the request got to none.
    pub cluster: Option<String>,
    pub endpoint: Option<(String, u16)>,
    pub answer: Answer,
}

impl Oracle {
    /// Resources of proxies, by their names.
    pub fn of<'a>(proxies: impl IntoIterator<Item = (&'a str, &'a ResourceSet)>) -> Result<Self> {
        let (mut envoys, mut at) = (BTreeMap::new(), BTreeMap::new());
        for (name, resources) in proxies {
            let envoy = Envoy::of(resources)?;
            at.extend(envoy.inbounds().map(|(address, port)| ((address.to_owned(), port), name.to_owned())));
            envoys.insert(name.to_owned(), envoy);
        }
        Ok(Self { envoys, at })
    }

    /// `None` for a proxy that presents none.
    pub fn certificate(&self, proxy: &str) -> Option<&Certificate> {
        self.envoys[proxy].certificate.as_ref()
    }

    /// Whether the client has a listener for the address of a destination.
    pub fn has_listener(&self, client: &str, address: &str, port: u16) -> bool {
        self.envoys[client].outbound(address, port).is_some()
    }

    /// Whether a call of the application beside `client` to an address gets through.
    pub fn call(&self, client: &str, address: &str, port: u16) -> Answer {
        Answer::of(self.attempts(client, address, port).into_iter().map(|attempt| attempt.answer))
    }

    /// Requests over every route to every endpoint.
    pub fn attempts(&self, client: &str, address: &str, port: u16) -> Vec<Attempt> {
        let client = &self.envoys[client];
        let Some(listener) = client.outbound(address, port) else {
            return vec![Attempt::failed(Answer::Refused(Reason::NotConfigured))];
        };
        let requests = requests::of(listener);
        let mut attempts: Vec<Attempt> = Vec::new();
        for request in requests {
            for attempt in self.attempt(client, (address, port), &request) {
                if !attempts.contains(&attempt) {
                    attempts.push(attempt);
                }
            }
        }
        attempts
    }

    fn attempt(&self, client: &Envoy, (address, port): (&str, u16), request: &Request) -> Vec<Attempt> {
        let sent = match client.simulated.outbound(address, port, request, &Connection::default()) {
            Ok(sent) => sent,
            Err(refusal) => return vec![Attempt::failed(Answer::refused(refusal))],
        };
        let forwarded = match sent.answer {
            simulate::Answer::Forwarded(forwarded) => *forwarded,
            simulate::Answer::Redirected { status, .. } | simulate::Answer::Responded { status, .. } => {
                return vec![Attempt::failed(Answer::Refused(Reason::Responded(status)))];
            }
        };
        let mut arriving = request.clone();
        if let Some(http) = &forwarded.http {
            arriving.authority.clone_from(&http.authority);
            arriving.path.clone_from(&http.path);
            arriving.headers.clone_from(&http.headers);
        }
        let attempt = |endpoint: &Endpoint| Attempt {
            cluster: Some(forwarded.cluster.clone()),
            endpoint: Some((endpoint.address.clone(), endpoint.port)),
            answer: self.deliver(client, endpoint, &arriving),
        };
        forwarded.endpoints.iter().map(attempt).collect()
    }

    /// An endpoint that is no known proxy is outside of the mesh, and answers.
    fn deliver(&self, client: &Envoy, endpoint: &Endpoint, request: &Request) -> Answer {
        let Some(server) = self.server(&endpoint.address, endpoint.port) else { return Answer::Answered };
        let mut connection = Connection::default();
        if let Some(tls) = &endpoint.tls {
            let presented = server.certificate.clone().unwrap_or_default();
            if let Err(refusal) = tls.check(&presented.uris, Some(&presented.issuer)) {
                return Answer::refused(refusal);
            }
            let Certificate { uris, issuer } = client.certificate.clone().unwrap_or_default();
            connection.tls = Some(tls.peer(uris, Some(issuer)));
        }
        arrive(&server.simulated, (&endpoint.address, endpoint.port), request, &connection)
    }

    /// Whether the inbound at an address admits a caller, whatever that has configured. `None` without the inbound.
    pub fn admits(&self, caller: Caller<'_>, address: &str, port: u16) -> Option<Answer> {
        let server = self.server(address, port)?;
        let certificate = match caller {
            Caller::Proxy(name) => self.certificate(name).cloned(),
            Caller::PlainText => None,
        };
        let peer = |Certificate { uris, issuer }| TlsPeer {
            uris,
            issuer: Some(issuer),
            sni: String::new(),
            alpn: vec![ALPN.to_owned()],
        };
        let connection = Connection { tls: certificate.map(peer) };
        Some(arrive(&server.simulated, (address, port), &Request::get("host", "/"), &connection))
    }

    fn server(&self, address: &str, port: u16) -> Option<&Envoy> {
        self.at.get(&(address.to_owned(), port)).map(|name| &self.envoys[name])
    }
}

fn arrive(server: &SimulatedProxy, (address, port): (&str, u16), request: &Request, connection: &Connection) -> Answer {
    match server.inbound(address, port, request, connection) {
        Ok(sent) if connection.tls.is_some() && !sent.ends_tls => {
            Answer::Refused(Reason::Tls("the server passes TLS through to its application".to_owned()))
        }
        Ok(_) => Answer::Answered,
        Err(Refusal::NoListener { .. } | Refusal::NoChain { .. }) => Answer::Refused(Reason::NoInbound),
        Err(Refusal::NotHttp { .. }) => {
            Answer::Refused(Reason::Tls("the server reads TLS as HTTP in plain text".to_owned()))
        }
        Err(refusal) => Answer::refused(refusal),
    }
}

impl Attempt {
    fn failed(answer: Answer) -> Self {
        Self { cluster: None, endpoint: None, answer }
    }
}

impl Answer {
    fn refused(refusal: Refusal) -> Self {
        Self::Refused(match refusal {
            Refusal::NoListener { .. } | Refusal::NoChain { .. } => Reason::NotConfigured,
            Refusal::NoRoute | Refusal::NoCluster(_) | Refusal::NotHttp { .. } => Reason::NoRoute,
            Refusal::NoEndpoints(_) => Reason::NoEndpoints,
            Refusal::Handshake { reason, .. } => Reason::Tls(reason),
            Refusal::Denied { .. } => Reason::Denied,
            Refusal::Unsupported(setting) => return Self::Unknown(setting),
        })
    }

    /// Of several requests.
    pub fn of(all: impl IntoIterator<Item = Self>) -> Self {
        let mut best = Self::Refused(Reason::NotConfigured);
        for answer in all {
            best = match (best, answer) {
                (Self::Answered, _) | (_, Self::Answered) => return Self::Answered,
                (Self::Unknown(setting), _) | (_, Self::Unknown(setting)) => Self::Unknown(setting),
                (Self::Refused(one), Self::Refused(other)) => Self::Refused(one.max(other)),
            };
        }
        best
    }

    pub fn is_answered(&self) -> bool {
        *self == Self::Answered
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered => f.write_str("answered"),
            Self::Refused(reason) => write!(f, "refused: {reason:?}"),
            Self::Unknown(setting) => write!(f, "the simulator does not support {setting}"),
        }
    }
}
