//! Features of the sidecar process, from the node metadata.

/// It serves DNS itself, from records that it reads from Envoy.
pub const EMBEDDED_DNS: &str = "feature-embedded-dns";
/// It requests delta xDS.
pub const DELTA: &str = "feature-delta-grpc";
/// Listeners may share a port between workers.
pub const REUSE_PORT: &str = "feature-reuse-port";
/// Only ports with an inbound accept inbound connections.
pub const STRICT_INBOUND_PORTS: &str = "feature-strict-inbound-ports";
/// The redirection settings are in the metadata, not in the Dataplane.
pub const TRANSPARENT_PROXY_IN_METADATA: &str = "feature-transparent-proxy-in-dataplane-metadata";
/// Outbounds have loopback addresses and bind, without redirection.
pub const BIND_OUTBOUNDS: &str = "feature-bind-outbounds";
/// It receives access logs through a named pipe.
pub const ACCESS_LOG_PIPE: &str = "feature-tcp-accesslog-via-named-pipe";
/// It counts callers without mTLS, from lines in that pipe, and reports them.
pub const PLAINTEXT_CALLERS: &str = "feature-plaintext-callers";
/// It receives telemetry for OpenTelemetry backends.
pub const OPEN_TELEMETRY: &str = "feature-otel-via-kuma-dp";
/// Resources are named by KRIs.
pub const UNIFIED_NAMES: &str = "feature-unified-resource-naming";
/// Certificates may come from a SPIRE agent.
pub const SPIRE: &str = "feature-spire";
/// It serves readiness on a socket. Only older versions send it.
pub const READINESS_SOCKET: &str = "feature-readiness-unix-socket";
