//! The names of Envoy resources. Users see them in metrics, logs and patches, so they are those that users know.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::Ipv6Addr;

pub use kodiak_envoy::stat_name;
use kodiak_model::Kri;
use kodiak_model::kinds::dataplane::BackendKind;
use kodiak_model::tags::SERVICE;
use sha2::{Digest as _, Sha256};

use crate::input::Tags;

/// Listener and cluster for connections to ports of this machine that are no inbounds.
pub const INBOUND_PASSTHROUGH_IPV4: &str = "inbound:passthrough:ipv4";
pub const INBOUND_PASSTHROUGH_IPV6: &str = "inbound:passthrough:ipv6";
/// Listener and cluster for calls to destinations that the mesh does not know.
pub const OUTBOUND_PASSTHROUGH_IPV4: &str = "outbound:passthrough:ipv4";
pub const OUTBOUND_PASSTHROUGH_IPV6: &str = "outbound:passthrough:ipv6";
/// A cluster without endpoints, for connections that nobody may take.
pub const NO_DESTINATION: &str = "self_transparentproxy_no_destination_inbound";
/// Listener, virtual host and cluster of Envoy's own interface.
pub const ADMIN: &str = "kuma:envoy:admin";
/// The cluster of who answers `/ready`.
pub const READINESS: &str = "kuma:readiness";
/// The listener of `probes` in a Dataplane.
pub const PROBES: &str = "probe:listener";
/// The virtual host of `probes` in a Dataplane.
pub const PROBES_HOST: &str = "probe";
/// The UDP listener that answers names.
pub const DNS: &str = "kuma:dns";
/// The listener on which the runner reads what Envoy got for it.
pub const DYNAMIC_CONFIG: &str = "_kuma:dynamicconfig";
/// The cluster of the control plane.
pub const CONTROL_PLANE: &str = "ads_cluster";
/// The cluster of the runner's access log socket.
pub const ACCESS_LOG_SINK: &str = "access_log_sink";
/// The static secret with the authority of the control plane.
pub const CONTROL_PLANE_AUTHORITY: &str = "cp_validation_ctx";
/// The route of a service without routes. Policies find it by this hash of its match.
pub const CATCH_ALL_ROUTE: &str = "9Zuf5Tg79OuZcQITwBbQykxAk2u4fRKrwYn3//AL4Yo=";
/// Listener metadata: the tags of an inbound or outbound.
pub const TAGS_METADATA: &str = "io.kuma.tags";

/// Listener metadata: the KRI of what is called.
pub const UNIFIED_NAME: &str = "kuma.io/unified-name";
/// Who lets calls out of a zone, as a service.
pub const ZONE_EGRESS: &str = "zone-egress";

/// How the clusters of resources are named.
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

/// How much of a socket's path is kept, without its ending.
const SOCKET_MAX: usize = 98;

/// The listener of an inbound.
pub fn inbound_listener(address: &str, port: u32) -> String {
    format!("inbound:{}", host_port(address, port))
}

/// The listener of an outbound.
pub fn outbound_listener(address: &str, port: u32) -> String {
    format!("{OUTBOUND}{}", host_port(address, port))
}

/// What the names of outbound listeners, and of no others, start with.
const OUTBOUND: &str = "outbound:";

pub fn is_outbound_listener(name: &str) -> bool {
    name.starts_with(OUTBOUND)
}

/// The cluster of the workload behind an inbound.
pub fn local_cluster(workload_port: u32) -> String {
    format!("localhost:{workload_port}")
}

/// The same, where another inbound has taken that name for something else.
pub fn local_cluster_of(workload_port: u32, section: &str) -> String {
    format!("localhost:{workload_port}:{section}")
}

/// The check of the workload behind an inbound, where that of another inbound has the name of the local cluster.
pub fn further_check(workload_port: u32, index: usize) -> String {
    format!("localhost:{workload_port}:{index}")
}

/// What an inbound is called in metadata when it has no tags: by its name, or its port.
pub fn inbound_section(section: &str) -> String {
    format!("self_inbound_dp_{section}")
}

/// The cluster of a service. A subset of one is told apart by a hash of its tags.
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

/// The value of `kuma.io/service`; empty without one.
pub fn service(tags: &Tags) -> &str {
    tags.get(SERVICE).map_or("", String::as_str)
}

/// The server name under which a service is called: `backend{mesh=default,region=us}`.
pub fn sni(tags: &Tags, mesh: &str) -> String {
    let mut pairs: Vec<_> = tags.iter().filter(|(key, _)| *key != SERVICE).collect();
    let (key, mesh) = ("mesh".to_owned(), mesh.to_owned());
    pairs.push((&key, &mesh));
    pairs.sort();
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{}{{{}}}", service(tags), pairs.join(","))
}

/// The cluster of a port of a resource. The KRI is that of the port, with the section.
pub fn port_cluster(naming: Naming, kri: &Kri, number: u32) -> String {
    let Kri { short, mesh, zone, namespace, name, section: _ } = kri;
    match naming {
        Naming::Kodiak => format!("{name}_{namespace}_{zone}_{mesh}_{short}_{number}"),
        Naming::Kuma => format!("{mesh}_{name}_{namespace}_{zone}_{short}_{number}"),
        Naming::Kri => kri.to_string(),
    }
}

/// The listener of a port of a resource.
pub fn port_listener(naming: Naming, kri: &Kri, address: &str, port: u32) -> String {
    match naming {
        Naming::Kodiak | Naming::Kuma => outbound_listener(address, port),
        Naming::Kri => kri.to_string(),
    }
}

/// The server name under which a port of a resource is called: `a<hash>.<name>.<port>.<mesh>.<kind>`.
pub fn port_sni(name: &str, number: u32, mesh: &str, kind: BackendKind) -> String {
    let kind = match kind {
        BackendKind::MeshService => "ms",
        BackendKind::MeshExternalService => "mes",
        BackendKind::MeshMultiZoneService => "mzms",
    };
    let hash = fnv1a(&format!("{name};{mesh};"));
    format!("a{hash:016x}.{}.{number}.{}.{kind}", dns_label(name), dns_label(mesh))
}

/// A part of a server name has a limit; what is cut shows that it was.
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

/// What a cluster leads to, as its name alone tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// A `kuma.io/service`, or a part of one.
    Service(String),
    /// A port of a resource.
    Port { short: String, mesh: String, zone: String, namespace: String, name: String, port: String },
}

/// From a cluster's name, or that in a metric, to the destination. What has the shape of none is a service.
pub fn destination_of(cluster: &str) -> Named {
    port_of(cluster).unwrap_or_else(|| Named::Service(without_subset(cluster).to_owned()))
}

/// Whether a cluster is that of a port of a resource, under whichever [`Naming`].
pub fn is_port(cluster: &str) -> bool {
    matches!(destination_of(cluster), Named::Port { .. })
}

/// Names may have underscores, what stands around them has none, so the rest is the name. Kuma's order is told from ours
/// by nothing, so it is not read.
fn port_of(cluster: &str) -> Option<Named> {
    let kinds = ["msvc", "extsvc", "mzsvc"];
    if let Some(kri) = cluster.strip_prefix("kri_") {
        let mut parts = kri.splitn(4, '_');
        let (short, mesh, zone) = (parts.next()?, parts.next()?, parts.next()?);
        let (namespace, rest) = parts.next()?.split_once('_')?;
        let (name, port) = rest.rsplit_once('_')?;
        let [short, mesh, zone, namespace, name, port] = [short, mesh, zone, namespace, name, port].map(str::to_owned);
        return kinds.contains(&&*short).then_some(Named::Port { short, mesh, zone, namespace, name, port });
    }
    let mut parts = cluster.rsplitn(6, '_');
    let [port, short, mesh, zone, namespace] = std::array::from_fn(|_| parts.next());
    let [port, short, mesh, zone, namespace] = [port?, short?, mesh?, zone?, namespace?].map(str::to_owned);
    let name = parts.next().filter(|name| !name.is_empty())?.to_owned();
    let is_port = kinds.contains(&&*short) && port.parse::<u16>().is_ok() && !mesh.is_empty();
    is_port.then_some(Named::Port { short, mesh, zone, namespace, name, port })
}

/// Parts of a service end with a hash of their tags.
fn without_subset(cluster: &str) -> &str {
    match cluster.rsplit_once('-') {
        Some((service, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => service,
        _ => cluster,
    }
}

/// The routes of an inbound.
pub fn inbound_routes(service: &str) -> String {
    format!("inbound:{service}")
}

/// The routes to a service.
pub fn outbound_routes(service: &str) -> String {
    format!("outbound:{service}")
}

/// The secret with a proxy's certificate and key.
pub fn identity_secret(mesh: &str) -> String {
    format!("identity_cert:secret:{mesh}")
}

/// The secret with the authorities of a mesh.
pub fn authority_secret(mesh: &str) -> String {
    format!("mesh_ca:secret:{mesh}")
}

/// The identity of whoever serves a service.
pub fn service_identity(mesh: &str, service: &str) -> String {
    format!("spiffe://{mesh}/{service}")
}

/// What the identities of a mesh start with.
pub fn identity_prefix(mesh: &str) -> String {
    format!("spiffe://{mesh}/")
}

/// Where the runner takes access logs.
pub fn access_log_socket(workdir: &str, name: &str, mesh: &str) -> String {
    socket(workdir, &format!("kuma-al-{name}-{mesh}"))
}

/// Where Envoy listens with its own interface, for the runner alone.
pub fn admin_socket(workdir: &str) -> String {
    socket(workdir, "kuma-envoy-admin")
}

/// Where the runner reads what Envoy got for it. Named after the first thing that was read there.
pub fn dynamic_config_socket(workdir: &str) -> String {
    socket(workdir, "kuma-mesh-metric-config")
}

/// Paths of sockets have a limit of about a hundred bytes, so long ones are cut.
fn socket(workdir: &str, name: &str) -> String {
    let path = format!("{}/{name}", workdir.trim_end_matches('/'));
    format!("{}.sock", &path[..path.floor_char_boundary(SOCKET_MAX)])
}

/// An IPv6 address is in brackets.
pub fn host_port(address: &str, port: u32) -> String {
    match address.parse::<Ipv6Addr>() {
        Ok(_) => format!("[{address}]:{port}"),
        Err(_) => format!("{address}:{port}"),
    }
}

/// The version of a text, as an `ETag`.
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
    fn the_server_name_holds_the_mesh_among_the_other_tags() {
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
    fn long_paths_of_sockets_are_cut() {
        assert_eq!(access_log_socket("/tmp/dp/", "web-1", "default"), "/tmp/dp/kuma-al-web-1-default.sock");
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
    fn a_port_is_named_after_all_that_it_is() {
        let named = |naming| port_cluster(naming, &kri("backend", ""), 80);
        assert_eq!(named(Naming::Kodiak), "backend__east_default_msvc_80");
        assert_eq!(named(Naming::Kuma), "default_backend__east_msvc_80");
        assert_eq!(named(Naming::Kri), "kri_msvc_default_east__backend_http");
    }

    #[test]
    fn from_the_name_of_a_cluster_its_destination_is_told() {
        for name in ["backend", "back-end", "back_end"] {
            for namespace in ["", "shop"] {
                let port = |port: &str| {
                    let [short, mesh, zone] = ["msvc", "default", "east"].map(str::to_owned);
                    let [namespace, name, port] = [namespace, name, port].map(str::to_owned);
                    Named::Port { short, mesh, zone, namespace, name, port }
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
            assert_eq!(destination_of(service), Named::Service(service.to_owned()));
        }
        assert_eq!(destination_of("backend-c72efb5be46fae6b"), Named::Service("backend".to_owned()));
    }

    #[test]
    fn the_server_name_of_a_port_has_a_hash_and_is_not_too_long() {
        let sni = |name: &str, mesh: &str| port_sni(name, 80, mesh, BackendKind::MeshService);
        assert_eq!(sni("backend", "default"), "a601e0c00295a9fbe.backend.80.default.ms");
        assert_eq!(sni("test-server", "envoyconfig"), "a029781856823048e.test-server.80.envoyconfig.ms");
        let long = "b".repeat(63);
        assert!(sni(&long, "default").contains(&format!(".{}x.80.", "b".repeat(62))));
    }
}
