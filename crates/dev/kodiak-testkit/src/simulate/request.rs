//! Simulated requests and connections.

use super::refusal::{Refusal, refuse_if};

/// Names in lower case, in order.
pub type Headers = Vec<(String, String)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
    /// Not HTTP. Only the `dice` of the request are used then.
    Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub protocol: Protocol,
    pub method: String,
    pub authority: String,
    /// With the query.
    pub path: String,
    pub headers: Headers,
    /// Stands for each random number of Envoy: shares and weights are summed up to it.
    pub dice: u64,
}

impl Request {
    pub fn get(authority: &str, path: &str) -> Self {
        Self {
            protocol: Protocol::Http1,
            method: "GET".to_owned(),
            authority: authority.to_owned(),
            path: path.to_owned(),
            headers: Headers::new(),
            dice: 0,
        }
    }

    pub fn bytes() -> Self {
        Self { protocol: Protocol::Bytes, ..Self::get("", "") }
    }

    pub fn method(self, method: &str) -> Self {
        Self { method: method.to_owned(), ..self }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_ascii_lowercase(), value.to_owned()));
        self
    }

    pub fn dice(self, dice: u64) -> Self {
        Self { dice, ..self }
    }

    /// Values of a header or pseudo header, in order.
    pub(super) fn values(&self, name: &str, scheme: &'static str) -> Result<Vec<&str>, Refusal> {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            ":method" => Ok(vec![&self.method]),
            ":authority" | "host" => Ok(vec![&self.authority]),
            ":path" => Ok(vec![&self.path]),
            ":scheme" => Ok(vec![scheme]),
            _ => {
                let named = self.headers.iter().filter(|(other, _)| *other == name);
                let values: Vec<&str> = named.map(|(_, value)| value.as_str()).collect();
                // Envoy joins the values of headers that it has a field for, and keeps others separate.
                let joined = values.len() > 1 && !name.starts_with("x-");
                refuse_if(joined, &format!("whether the values of {name} are joined"))?;
                Ok(values)
            }
        }
    }

    /// The first value of a header.
    pub(super) fn value(&self, name: &str) -> Result<Option<&str>, Refusal> {
        Ok(self.values(name, "http")?.first().copied())
    }

    pub(super) fn path_without_query(&self) -> &str {
        self.path.split(['?', '#']).next().unwrap_or_default()
    }

    /// The query with its `?`, or empty.
    pub(super) fn query(&self) -> &str {
        &self.path[self.path_without_query().len()..]
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connection {
    pub tls: Option<TlsPeer>,
}

/// Client of a TLS connection: its ClientHello and certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsPeer {
    /// URI SANs of its certificate; empty means no certificate.
    pub uris: Vec<String>,
    /// CA certificate of its issuer, as trust bundles contain it. `None`: each CA is trusted.
    pub issuer: Option<String>,
    pub sni: String,
    pub alpn: Vec<String>,
}
