//! Names of Envoy resources. Users see them in metrics, logs and patches, so they are Kuma's.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::Ipv6Addr;

pub use kodiak_envoy::stat_name;
use kodiak_model::Kri;
use kodiak_model::kinds::dataplane::BackendKind;
use kodiak_model::tags::SERVICE;
use kodiak_policies::passthrough::PassthroughMatch;
use sha2::{Digest as _, Sha256};

use crate::input::Tags;

/// Listener and cluster for inbound connections to ports without an inbound.
pub const INBOUND_PASSTHROUGH_IPV4: &str = "inbound:passthrough:ipv4";
pub const INBOUND_PASSTHROUGH_IPV6: &str = "inbound:passthrough:ipv6";
/// Listener and cluster for outbound connections to destinations outside the mesh.
pub const OUTBOUND_PASSTHROUGH_IPV4: &str = "outbound:passthrough:ipv4";
pub const OUTBOUND_PASSTHROUGH_IPV6: &str = "outbound:passthrough:ipv6";
/// Routes and statistics of connections to virtual addresses without a listener.
pub const TRIMMED: &str = "outbound:trimmed";
/// Chain and statistics of refused connections to destinations outside the mesh.
pub const PASSTHROUGH_REFUSED: &str = "meshpassthrough_refused";
/// A cluster without endpoints, for connections that are not allowed.
pub const NO_DESTINATION: &str = "self_transparentproxy_no_destination_inbound";
/// Listener, virtual host and cluster of Envoy's admin interface.
pub const ADMIN: &str = "kuma:envoy:admin";
/// Cluster of the `/ready` endpoint.
pub const READINESS: &str = "kuma:readiness";
/// Listener of `probes` in a Dataplane.
pub const PROBES: &str = "probe:listener";
/// Virtual host of `probes` in a Dataplane.
pub const PROBES_HOST: &str = "probe";
/// UDP listener for DNS.
pub const DNS: &str = "kuma:dns";
/// Listener on which `kodiak dp` reads the configuration that Envoy received for it.
pub const DYNAMIC_CONFIG: &str = "_kuma:dynamicconfig";
/// Cluster of the metrics socket of `kodiak dp`.
pub const METRICS: &str = "_kuma:metrics:hijacker";
/// Cluster of the control plane.
pub const CONTROL_PLANE: &str = "ads_cluster";
/// Cluster of the access log socket of `kodiak dp`.
pub const ACCESS_LOG_SINK: &str = "access_log_sink";
/// Secret of a SPIRE agent with the CAs of all domains that it trusts.
pub const SPIRE_TRUST_BUNDLE: &str = "ALL";
/// Statistics of connections to a SPIRE agent.
pub const SPIRE_AGENT: &str = "spire_agent";
/// Static secret with the CA of the control plane.
pub const CONTROL_PLANE_CA: &str = "cp_validation_ctx";
/// Route of a service without routes. Policies identify it by this hash of its match.
pub const CATCH_ALL_ROUTE: &str = "9Zuf5Tg79OuZcQITwBbQykxAk2u4fRKrwYn3//AL4Yo=";
/// Listener metadata: tags of an inbound or outbound.
pub const TAGS_METADATA: &str = "io.kuma.tags";

/// Endpoint metadata for selecting a transport socket: the endpoint is called in plain text. Its value is a boolean, which no
/// tag can be.
pub const PLAINTEXT: &str = "kodiak.io/plaintext";

/// Listener metadata: KRI of the destination.
pub const UNIFIED_NAME: &str = "kuma.io/unified-name";
/// Cluster of instances that are called by their own addresses.
pub const DIRECT_ACCESS: &str = "direct_access";
/// Cluster of those instances that are called in plain text, while others are called with mTLS.
pub const DIRECT_ACCESS_PLAINTEXT: &str = "direct_access_plaintext";
/// Cluster of those instances that cannot be called: they have no certificate, and the mesh refuses plain text.
pub const DIRECT_ACCESS_CLOSED: &str = "direct_access_closed";
/// Service name of zone egresses.
pub const ZONE_EGRESS: &str = "zone-egress";

/// Naming scheme for clusters of MeshServices, MeshExternalServices and MeshMultiZoneServices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Naming {
    /// `<name>_<namespace>_<zone>_<mesh>_<kind>_<port>`.
    #[default]
    Kodiak,
    /// `<mesh>_<name>_<namespace>_<zone>_<kind>_<port>`.
    Kuma,
    /// `kri_<kind>_<mesh>_<zone>_<namespace>_<name>_<section>`.
    Kri,
}

/// Maximum length of a socket path, without its suffix.
const SOCKET_MAX: usize = 98;

/// Cluster of the destinations outside the mesh that a MeshPassthrough matches.
pub fn passthrough_cluster(matched: &PassthroughMatch) -> String {
    let PassthroughMatch { destination: _, port, protocol, value } = matched;
    format!("meshpassthrough_{}_{value}_{}", protocol.as_str(), port_or_any(*port))
}

/// Routes of HTTP requests to destinations outside the mesh.
pub fn passthrough_http(port: Option<u16>) -> String {
    format!("meshpassthrough_http_{}", port_or_any(port))
}

fn port_or_any(port: Option<u16>) -> String {
    port.map_or_else(|| "*".to_owned(), |port| port.to_string())
}

pub fn inbound_listener(address: &str, port: u32) -> String {
    format!("inbound:{}", host_port(address, port))
}

/// Whether the cluster is of instances that are called by their own addresses.
pub fn is_direct_access(cluster: &str) -> bool {
    [DIRECT_ACCESS, DIRECT_ACCESS_PLAINTEXT, DIRECT_ACCESS_CLOSED].contains(&cluster)
}

pub fn direct_access_listener(address: &str, port: u32) -> String {
    format!("{DIRECT_ACCESS}_{}", host_port(address, port))
}

pub fn outbound_listener(address: &str, port: u32) -> String {
    format!("{OUTBOUND}{}", host_port(address, port))
}

/// Prefix of outbound listeners, and of no others.
const OUTBOUND: &str = "outbound:";

pub fn is_outbound_listener(name: &str) -> bool {
    name.starts_with(OUTBOUND)
}

/// Cluster of the application of an inbound.
pub fn local_cluster(workload_port: u32) -> String {
    format!("localhost:{workload_port}")
}

/// Fallback name when another inbound uses `local_cluster` for a different address.
pub fn local_cluster_of(workload_port: u32, section: &str) -> String {
    format!("localhost:{workload_port}:{section}")
}

/// Name of a health check when another inbound's check has the name of the local cluster.
pub fn fallback_check(workload_port: u32, index: usize) -> String {
    format!("localhost:{workload_port}:{index}")
}

/// Name of an inbound without tags in metadata: its name, or its port.
pub fn inbound_section(section: &str) -> String {
    format!("self_inbound_dp_{section}")
}

/// Cluster of a service. The name of a subset has a hash of its tags as suffix.
pub fn service_cluster(tags: &Tags) -> String {
    let service = service(tags);
    if tags.len() == 1 && tags.contains_key(SERVICE) {
        return service.to_owned();
    }
    let mut pairs: Vec<_> = tags.iter().map(|(key, value)| format!("{key}{value}")).collect();
    pairs.sort();
    let mut name = format!("{service}-");
    write_hex(&Sha256::digest(pairs.concat())[..8], &mut name);
    name
}

/// Value of `kuma.io/service`; empty when missing.
pub fn service(tags: &Tags) -> &str {
    tags.get(SERVICE).map_or("", String::as_str)
}

/// SNI of a service: `backend{mesh=default,region=us}`.
pub fn sni(tags: &Tags, mesh: &str) -> String {
    let mut pairs: Vec<_> = tags.iter().filter(|(key, _)| *key != SERVICE).collect();
    let (key, mesh) = ("mesh".to_owned(), mesh.to_owned());
    pairs.push((&key, &mesh));
    pairs.sort();
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{}{{{}}}", service(tags), pairs.join(","))
}

/// Cluster of a destination port. The KRI includes the section.
pub fn port_cluster(naming: Naming, kri: &Kri, number: u32) -> String {
    let Kri { short, mesh, zone, namespace, name, section: _ } = kri;
    match naming {
        Naming::Kodiak => format!("{name}_{namespace}_{zone}_{mesh}_{short}_{number}"),
        Naming::Kuma => format!("{mesh}_{name}_{namespace}_{zone}_{short}_{number}"),
        Naming::Kri => kri.to_string(),
    }
}

/// Listener of a destination port.
pub fn port_listener(naming: Naming, kri: &Kri, address: &str, port: u32) -> String {
    match naming {
        Naming::Kodiak | Naming::Kuma => outbound_listener(address, port),
        Naming::Kri => kri.to_string(),
    }
}

/// SNI of a destination port: `a<hash>.<name>.<port>.<mesh>.<kind>`.
pub fn port_sni(name: &str, number: u32, mesh: &str, kind: BackendKind) -> String {
    let kind = match kind {
        BackendKind::MeshService => "ms",
        BackendKind::MeshExternalService => "mes",
        BackendKind::MeshMultiZoneService => "mzms",
    };
    let hash = fnv1a(&format!("{name};{mesh};"));
    format!("a{hash:016x}.{}.{number}.{}.{kind}", dns_label(name), dns_label(mesh))
}

/// DNS labels have a length limit; a truncated one is marked as such.
fn dns_label(text: &str) -> Cow<'_, str> {
    const MAX: usize = 62;
    if text.len() <= MAX {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}x", &text[..text.floor_char_boundary(MAX)]))
}

fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Destination of a cluster, parsed from its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterDestination {
    /// A `kuma.io/service`, or a subset of it.
    Service(String),
    /// A port of a MeshService, MeshExternalService or MeshMultiZoneService.
    Port { short: String, mesh: String, zone: String, namespace: String, name: String, port: String },
}

/// Parses the name of a cluster, or its form in metrics. A name without a known structure is a service.
pub fn destination_of(cluster: &str) -> ClusterDestination {
    port_of(cluster).unwrap_or_else(|| ClusterDestination::Service(without_subset(cluster).to_owned()))
}

/// Whether the cluster is that of a destination port, in any [`Naming`].
pub fn is_port(cluster: &str) -> bool {
    matches!(destination_of(cluster), ClusterDestination::Port { .. })
}

/// Only the name may contain underscores, so it is the rest between the other parts. [`Naming::Kuma`] cannot be
/// distinguished from [`Naming::Kodiak`], so it is not parsed.
fn port_of(cluster: &str) -> Option<ClusterDestination> {
    let kinds = ["msvc", "extsvc", "mzsvc"];
    if let Some(kri) = cluster.strip_prefix("kri_") {
        let mut parts = kri.splitn(4, '_');
        let (short, mesh, zone) = (parts.next()?, parts.next()?, parts.next()?);
        let (namespace, rest) = parts.next()?.split_once('_')?;
        let (name, port) = rest.rsplit_once('_')?;
        let [short, mesh, zone, namespace, name, port] = [short, mesh, zone, namespace, name, port].map(str::to_owned);
        return kinds.contains(&&*short).then_some(ClusterDestination::Port {
            short,
            mesh,
            zone,
            namespace,
            name,
            port,
        });
    }
    let mut parts = cluster.rsplitn(6, '_');
    let [port, short, mesh, zone, namespace] = std::array::from_fn(|_| parts.next());
    let [port, short, mesh, zone, namespace] = [port?, short?, mesh?, zone?, namespace?].map(str::to_owned);
    let name = parts.next().filter(|name| !name.is_empty())?.to_owned();
    let is_port = kinds.contains(&&*short) && port.parse::<u16>().is_ok() && !mesh.is_empty();
    is_port.then_some(ClusterDestination::Port { short, mesh, zone, namespace, name, port })
}

fn without_subset(cluster: &str) -> &str {
    service_of_subset(cluster).unwrap_or(cluster)
}

/// Service of a subset's cluster, whose name ends with a hash of the tags. The name of a service may end like this, too.
pub fn service_of_subset(cluster: &str) -> Option<&str> {
    let (service, hash) = cluster.rsplit_once('-')?;
    (hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(service)
}

/// Route configuration of an inbound.
pub fn inbound_routes(service: &str) -> String {
    format!("inbound:{service}")
}

/// Route configuration of an outbound.
pub fn outbound_routes(service: &str) -> String {
    format!("outbound:{service}")
}

/// Secret with a proxy's certificate and private key.
pub fn identity_secret(mesh: &str) -> String {
    format!("identity_cert:secret:{mesh}")
}

/// Validation context for any proxy of a mesh, such as the callers of an inbound.
pub fn validation_secret(mesh: &str) -> String {
    format!("mesh_ca:secret:{mesh}")
}

/// Validation context for the servers of a cluster.
pub fn server_validation_secret(mesh: &str, cluster: &str) -> String {
    format!("mesh_ca:secret:{mesh}:{cluster}")
}

/// Whether a secret is a validation context of the mesh, for callers or for the servers of a cluster.
pub fn is_validation_secret(mesh: &str, name: &str) -> bool {
    let rest = name.strip_prefix(&*validation_secret(mesh));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

/// SPIFFE ID of a service's proxies.
pub fn service_identity(mesh: &str, service: &str) -> String {
    format!("spiffe://{mesh}/{service}")
}

/// Prefix of all SPIFFE IDs of a mesh.
pub fn identity_prefix(mesh: &str) -> String {
    format!("spiffe://{mesh}/")
}

/// Pipe from which the sidecar process forwards access logs. A folder relative to that of Envoy has the files of one proxy
/// only, so the name of the pipe is the same for all: listeners with it can be shared.
pub fn access_log_pipe(workdir: &str, name: &str, mesh: &str) -> String {
    if workdir.starts_with('/') {
        socket(workdir, &format!("kuma-al-{name}-{mesh}"))
    } else {
        socket(workdir, "kuma-al")
    }
}

/// Socket of Envoy's admin interface, for `kodiak dp` only.
pub fn admin_socket(workdir: &str) -> String {
    socket(workdir, "kuma-envoy-admin")
}

/// Socket on which `kodiak dp` reads the configuration that Envoy received for it. Kuma named it after its first
/// content.
pub fn dynamic_config_socket(workdir: &str) -> String {
    socket(workdir, "kuma-mesh-metric-config")
}

/// Socket on which `kodiak dp` serves metrics of Envoy and of applications.
pub fn metrics_socket(workdir: &str, name: &str, mesh: &str) -> String {
    socket(workdir, &format!("kuma-mh-{name}-{mesh}"))
}

/// Socket on which Envoy receives metrics for a collector. A name that ends with a hash fits if the others do.
pub fn collector_socket(workdir: &str, collector: &str) -> String {
    let mut name = "kuma-mm-otel-".to_owned();
    write_hex(&Sha256::digest(collector)[..4], &mut name);
    socket(workdir, &name)
}

/// Listener for a Prometheus.
pub fn prometheus_listener(backend: &str) -> String {
    format!("_kuma:metrics:prometheus:{backend}")
}

/// Listener and cluster of an OpenTelemetry collector of metrics.
pub fn metric_collector(collector: &str) -> String {
    format!("_kuma:metrics:opentelemetry:{collector}")
}

/// Unix socket paths are limited to about a hundred bytes, so long ones are truncated.
fn socket(workdir: &str, name: &str) -> String {
    let path = format!("{}/{name}", workdir.trim_end_matches('/'));
    format!("{}.sock", &path[..path.floor_char_boundary(SOCKET_MAX)])
}

/// Puts an IPv6 address in brackets.
pub fn host_port(address: &str, port: u32) -> String {
    match address.parse::<Ipv6Addr>() {
        Ok(_) => format!("[{address}]:{port}"),
        Err(_) => format!("{address}:{port}"),
    }
}

/// Hash of a text, as an `ETag`.
pub fn etag(text: &str) -> String {
    let mut tag = String::with_capacity(64);
    write_hex(&Sha256::digest(text), &mut tag);
    tag
}

fn write_hex(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        write!(out, "{byte:02x}").expect("a String takes all that is written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tags;

    #[test]
    fn a_subset_has_the_hash_of_all_its_tags() {
        assert_eq!(service_cluster(&tags(&[(SERVICE, "backend")])), "backend");
        let subset = tags(&[(SERVICE, "backend"), ("region", "us")]);
        assert_eq!(service_cluster(&subset), "backend-c72efb5be46fae6b");
    }

    #[test]
    fn sni_contains_the_mesh_and_the_tags() {
        assert_eq!(sni(&tags(&[(SERVICE, "backend")]), "default"), "backend{mesh=default}");
        let subset = tags(&[(SERVICE, "backend"), ("region", "us"), ("az", "1")]);
        assert_eq!(sni(&subset, "default"), "backend{az=1,mesh=default,region=us}");
    }

    #[test]
    fn an_ipv6_address_is_in_brackets() {
        assert_eq!(inbound_listener("10.0.0.5", 8080), "inbound:10.0.0.5:8080");
        assert_eq!(outbound_listener("fd00::1", 80), "outbound:[fd00::1]:80");
    }

    #[test]
    fn long_socket_paths_are_truncated() {
        assert_eq!(access_log_pipe("/tmp/dp/", "web-1", "default"), "/tmp/dp/kuma-al-web-1-default.sock");
        assert_eq!(access_log_pipe(".", "web-1", "default"), "./kuma-al.sock");
        let cut = admin_socket(&format!("/{}", "é".repeat(80)));
        assert!(cut.ends_with("é.sock") && cut.len() <= 98 + 5, "{cut}");
    }

    #[test]
    fn metrics_get_no_special_characters() {
        assert_eq!(stat_name("inbound:[::1]:80/a.b-c_é"), "inbound____1__80_a_b-c__");
    }

    fn kri(name: &str, namespace: &str) -> Kri {
        let (mesh, zone) = ("default".to_owned(), "east".to_owned());
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Kri { short: "msvc", mesh, zone, namespace, name, section: "http".to_owned() }
    }

    #[test]
    fn port_cluster_names_contain_all_parts() {
        let named = |naming| port_cluster(naming, &kri("backend", ""), 80);
        assert_eq!(named(Naming::Kodiak), "backend__east_default_msvc_80");
        assert_eq!(named(Naming::Kuma), "default_backend__east_msvc_80");
        assert_eq!(named(Naming::Kri), "kri_msvc_default_east__backend_http");
    }

    #[test]
    fn cluster_names_parse_to_destinations() {
        for name in ["backend", "back-end", "back_end"] {
            for namespace in ["", "shop"] {
                let port = |port: &str| {
                    let [short, mesh, zone] = ["msvc", "default", "east"].map(str::to_owned);
                    let [namespace, name, port] = [namespace, name, port].map(str::to_owned);
                    ClusterDestination::Port { short, mesh, zone, namespace, name, port }
                };
                let kri = kri(name, namespace);
                assert_eq!(destination_of(&port_cluster(Naming::Kodiak, &kri, 80)), port("80"));
                assert_eq!(destination_of(&port_cluster(Naming::Kri, &kri, 80)), port("http"));
            }
        }
        for naming in [Naming::Kodiak, Naming::Kuma, Naming::Kri] {
            assert!(is_port(&port_cluster(naming, &kri("backend", "shop"), 80)), "{naming:?}");
        }
        for service in ["backend", "backend_shop_svc_80", "a_b_c_d_e_f", "kri_x"] {
            assert_eq!(destination_of(service), ClusterDestination::Service(service.to_owned()));
        }
        assert_eq!(destination_of("backend-c72efb5be46fae6b"), ClusterDestination::Service("backend".to_owned()));
    }

    #[test]
    fn port_sni_has_a_hash_and_is_truncated() {
        let sni = |name: &str, mesh: &str| port_sni(name, 80, mesh, BackendKind::MeshService);
        assert_eq!(sni("backend", "default"), "a601e0c00295a9fbe.backend.80.default.ms");
        assert_eq!(sni("test-server", "envoyconfig"), "a029781856823048e.test-server.80.envoyconfig.ms");
        let long = "b".repeat(63);
        assert!(sni(&long, "default").contains(&format!(".{}x.80.", "b".repeat(62))));
    }
}
