//! What a runner can do, as it says in the metadata of its node.

/// It answers names itself, from a table that it reads out of Envoy.
pub const EMBEDDED_DNS: &str = "feature-embedded-dns";
/// It wants delta xDS.
pub const DELTA: &str = "feature-delta-grpc";
/// Listeners may share a port between workers.
pub const REUSE_PORT: &str = "feature-reuse-port";
/// Only ports that are inbounds are let through on the way in.
pub const STRICT_INBOUND_PORTS: &str = "feature-strict-inbound-ports";
/// How connections are redirected stands in the metadata, not in the Dataplane.
pub const TRANSPARENT_PROXY_IN_METADATA: &str = "feature-transparent-proxy-in-dataplane-metadata";
/// Outbounds have loopback addresses and are bound, without redirection.
pub const BIND_OUTBOUNDS: &str = "feature-bind-outbounds";
/// It takes access logs through a named pipe.
pub const ACCESS_LOG_PIPE: &str = "feature-tcp-accesslog-via-named-pipe";
/// It takes telemetry for OpenTelemetry backends.
pub const OPEN_TELEMETRY: &str = "feature-otel-via-kuma-dp";
/// Resources are named by KRIs.
pub const UNIFIED_NAMES: &str = "feature-unified-resource-naming";
/// Identities may come from a SPIRE agent.
pub const SPIRE: &str = "feature-spire";
/// It answers readiness on a socket. Only older runners say so.
pub const READINESS_SOCKET: &str = "feature-readiness-unix-socket";
