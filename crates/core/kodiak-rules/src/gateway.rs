//! Builtin gateways: the listeners that a MeshGateway gives to a proxy.

/// A listener of a gateway, for one hostname.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listener {
    pub port: u32,
    /// `*` for all.
    pub hostname: String,
}
