//! Resource types that the server supports, and those that it only answers.

use std::fmt;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TypeUrl {
    Cluster,
    Endpoint,
    Listener,
    Route,
    Secret,
}

impl TypeUrl {
    pub const COUNT: usize = 5;
    pub const ALL: [Self; Self::COUNT] = [Self::Cluster, Self::Endpoint, Self::Listener, Self::Route, Self::Secret];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            Self::Endpoint => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            Self::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
            Self::Route => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
            Self::Secret => "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
        }
    }

    /// Clusters and listeners: an empty first request asks for all of them, and a state-of-the-world response holds all
    /// of them, so that omitting one removes it.
    /// <https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#how-the-client-specifies-what-resources-to-return>
    pub fn is_whole(self) -> bool {
        match self {
            Self::Cluster | Self::Listener => true,
            Self::Endpoint | Self::Route | Self::Secret => false,
        }
    }

    /// Whether other types reference this one, so that a resource may only be removed when it is unused.
    pub fn removed_last(self) -> bool {
        match self {
            Self::Cluster | Self::Endpoint | Self::Secret => true,
            Self::Listener | Self::Route => false,
        }
    }

    pub(crate) fn index(self) -> usize {
        match self {
            Self::Cluster => 0,
            Self::Endpoint => 1,
            Self::Listener => 2,
            Self::Route => 3,
            Self::Secret => 4,
        }
    }
}

impl fmt::Display for TypeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The type of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requested {
    Served(TypeUrl),
    /// Unsupported: answered with no resources.
    Unknown(Arc<str>),
}

impl Requested {
    pub fn from_wire(type_url: &str) -> Self {
        let served = TypeUrl::ALL.into_iter().find(|served| served.as_str() == type_url);
        served.map_or_else(|| Self::Unknown(type_url.into()), Self::Served)
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Served(served) => served.as_str(),
            Self::Unknown(type_url) => type_url,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_urls_round_trip_and_have_distinct_indexes() {
        for (index, type_url) in TypeUrl::ALL.into_iter().enumerate() {
            assert_eq!(Requested::from_wire(type_url.as_str()), Requested::Served(type_url));
            assert_eq!(type_url.index(), index);
        }
        assert_eq!(Requested::from_wire("x").as_str(), "x");
    }
}
