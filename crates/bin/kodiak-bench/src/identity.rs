//! `kodiak bench identity`

use std::{
    collections::HashMap,
    num::NonZero,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use kodiak_crypto::{CaKeyType, CaPair, LeafSpec, LeafUsage, RootCaParams, RsaBits, TEN_YEARS, root_ca};
use kodiak_engine::{Engine, EngineChange, EngineSettings, Identities, Leaf, LeafIssuer, LeafRequest, Stats};
use kodiak_model::{
    ProxyKey,
    kinds::{mesh::Mesh, mesh_external_service::Source},
};
use kodiak_rollout::{AppliedIdentity, AppliedProvider, DesiredIdentities, Phase, Rollout};
use kodiak_rules::Proxy;
use kodiak_terminal::{Exit, Table, Terminal};
use kodiak_xds::{
    input::{AdminCertificate, Identity},
    node::NodeMetadata,
};
use kodiak_xds_stream::Version;
use serde_json::{Value, json};

use super::results::{as_f64, millis};

const MESH: &str = "bench";
const TRUST_DOMAIN: &str = "bench.local";
const BACKEND: &str = "ca";
const LIFETIME: SignedDuration = SignedDuration::from_hours(24);

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak bench identity
  kodiak bench identity --ca rsa --leaves 1000 --json

First, one CA issues certificates, each with a private key of its own: P-256 keys, signed by a CA with a P-256 or an RSA
key.

Then the engine moves a mesh of simulated proxies from the mesh CA to a MeshIdentity, in the steps of a rollout. Each
proxy has one service and calls a few others. Measured are the time of each step, the resources that it encodes, and the
proxies that it wakes. Proxies acknowledge at once: in a real mesh, their acknowledgements are what a step waits for.")]
pub(super) struct Args {
    /// Certificates to issue
    #[arg(long, default_value = "10000")]
    leaves: NonZero<usize>,
    /// Type of the private key of the CA
    #[arg(long, value_enum, default_value = "ecdsa")]
    ca: CaType,
    /// Proxies of the mesh that moves to another identity
    #[arg(long, default_value = "1000")]
    proxies: NonZero<usize>,
    /// Services that each proxy calls
    #[arg(long, default_value_t = 10)]
    calls: usize,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum CaType {
    Ecdsa,
    Rsa,
}

struct MeasuredStep {
    phase: Phase,
    took: Duration,
    stats: Stats,
    /// Certificates that were issued in it.
    issued: usize,
}

pub(super) fn run(args: &Args, terminal: Terminal) -> anyhow::Result<Exit> {
    let count = args.leaves.get();
    terminal.remark(&format!("Issuing {count} certificates."));
    let ca = Ca::new(args.ca)?;
    let started = Instant::now();
    for number in 0..count {
        ca.issue(&number.to_string(), &[format!("spiffe://{TRUST_DOMAIN}/workload/{number}")])?;
    }
    let issuing = started.elapsed();
    terminal.remark(&format!("Moving a mesh of {} proxies to another identity.", args.proxies));
    let steps = switch(args)?;
    let per_second = as_f64(count) / issuing.as_secs_f64();
    if args.json {
        let steps: Vec<Value> = steps.iter().map(MeasuredStep::json).collect();
        let leaves = json!({ "count": count, "ms": millis(issuing), "perSecond": per_second });
        terminal.data(&json!({ "leaves": leaves, "proxies": args.proxies, "steps": steps }).to_string())?;
    } else {
        terminal
            .result(&format!("{count} certificates in {:.0} ms: {per_second:.0} in a second\n", millis(issuing)))?;
        terminal.result(&table(&steps).show())?;
    }
    Ok(Exit::Fine)
}

/// Steps of a mesh from its CA to a MeshIdentity.
fn switch(args: &Args) -> anyhow::Result<Vec<MeasuredStep>> {
    let proxies = args.proxies.get();
    let mtls = json!({ "mtls": { "enabledBackend": BACKEND, "backends": [{ "name": BACKEND, "type": "builtin" }] } });
    let mesh: Mesh = serde_json::from_value(mtls)?;
    let cas = Cas { mesh: Ca::new(args.ca)?, identity: Ca::new(args.ca)?, known: Mutex::default() };
    let mut engine = Engine::new(EngineSettings { zone: "default".into(), ..EngineSettings::default() });
    let now = Timestamp::now();
    let mut changes =
        vec![EngineChange::Mesh { name: MESH.into(), mesh: Some(Arc::new(mesh.clone())), reachability: None }];
    for number in 0..proxies {
        let proxy = dataplane(number, proxies, args.calls)?;
        let key = ProxyKey { mesh: MESH.into(), name: proxy.name.clone() };
        changes.push(EngineChange::Dataplane { key: key.clone(), dataplane: Some(Arc::new(proxy)) });
        changes.push(EngineChange::Connected { key, metadata: Arc::new(NodeMetadata::default()) });
    }
    let mut current = Rollout::target(&mesh, &DesiredIdentities::default());
    changes.push(EngineChange::Rollout { mesh: MESH.into(), rollout: Some(current.clone()) });
    engine.apply(changes, &cas, now);
    let target = Rollout::target(&mesh, &desired(&cas.identity));
    let mut steps = Vec::new();
    while let Some((phase, next)) = current.next(&target, false) {
        let issued = cas.issued();
        let started = Instant::now();
        let change = EngineChange::Rollout { mesh: MESH.into(), rollout: Some(next.clone()) };
        let outcome = engine.apply([change], &cas, now);
        let took = started.elapsed();
        let faults: Vec<_> = outcome.proxies.iter().flat_map(|updated| &updated.faults).collect();
        anyhow::ensure!(faults.is_empty(), "the configuration of the bench is not valid: {faults:?}");
        let issued = cas.issued() - issued;
        steps.push(MeasuredStep { phase, took, stats: outcome.stats, issued });
        current = next;
    }
    Ok(steps)
}

fn desired(ca: &Ca) -> DesiredIdentities {
    let provider =
        AppliedProvider::Bundled { ca: ca.pair.fingerprint().into(), seconds: LIFETIME.as_secs().unsigned_abs() };
    let identity = AppliedIdentity {
        name: "identity".into(),
        kri: "kri_mid_bench___identity_".into(),
        trust_domain: TRUST_DOMAIN.into(),
        provider: Some(provider),
        ..AppliedIdentity::default()
    };
    let mut desired = DesiredIdentities { identities: vec![Arc::new(identity)], ..DesiredIdentities::default() };
    desired.trust(TRUST_DOMAIN.into(), [ca.pair.roots_pem().into()]);
    desired
}

/// Serves `service-N`, and calls the next ones.
fn dataplane(number: usize, of: usize, calls: usize) -> anyhow::Result<Proxy> {
    let name = |number: usize| format!("service-{}", number % of);
    let outbounds: Vec<Value> = (1..=calls)
        .map(|next| json!({ "port": 10_000 + next, "tags": { "kuma.io/service": name(number + next) } }))
        .collect();
    let tags = json!({ "kuma.io/service": name(number), "kuma.io/protocol": "http" });
    let address = format!("10.{}.{}.{}", number >> 16 & 0xff, number >> 8 & 0xff, number & 0xff);
    let inbounds = json!([{ "port": 8080, "tags": tags }]);
    let spec = json!({ "networking": { "address": address, "inbound": inbounds, "outbound": outbounds } });
    Ok(Proxy {
        mesh: MESH.into(),
        name: name(number).into(),
        labels: Arc::new([("kuma.io/workload".to_owned(), name(number))].into()),
        dataplane: Arc::new(serde_json::from_value(spec)?),
        admission: None,
    })
}

struct Ca {
    pair: CaPair,
    now: Timestamp,
}

impl Ca {
    fn new(key: CaType) -> anyhow::Result<Self> {
        let now = Timestamp::now();
        let key = match key {
            CaType::Ecdsa => CaKeyType::P256,
            CaType::Rsa => CaKeyType::Rsa(RsaBits::default()),
        };
        let pair = root_ca(&RootCaParams { common_name: MESH, expires_after: TEN_YEARS, key, uri_san: None, now })?;
        Ok(Self { pair: CaPair::from_pem(pair.cert_pem.as_bytes(), pair.key_pem.expose().as_bytes())?, now })
    }

    fn issue(&self, subject: &str, uris: &[String]) -> anyhow::Result<Identity> {
        let spec = LeafSpec {
            purpose: "bench",
            subject,
            incarnation: 0,
            epoch: 0,
            usage: LeafUsage::Both,
            not_before: self.now,
            not_after: self.now + LIFETIME,
            uris,
            dns_names: &[],
            ips: &[],
        };
        let leaf = self.pair.issue(&spec)?;
        Ok(Identity { certificate: leaf.cert_pem.into(), key: leaf.key_pem.expose().into() })
    }
}

/// CAs of the mesh that moves.
struct Cas {
    mesh: Ca,
    identity: Ca,
    /// As in a control plane, a certificate is issued once.
    known: Mutex<HashMap<LeafRequest, Arc<Leaf>>>,
}

impl Cas {
    fn issued(&self) -> usize {
        self.known().len()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<LeafRequest, Arc<Leaf>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Identities for Cas {
    fn leaf(&self, request: &LeafRequest, now: Timestamp) -> Result<Arc<Leaf>, String> {
        if let Some(known) = self.known().get(request) {
            return Ok(known.clone());
        }
        let (ca, version) = match request.issuer {
            LeafIssuer::Backend(_) => (&self.mesh, 1),
            LeafIssuer::Identity { .. } => (&self.identity, 2),
        };
        let identity = ca.issue(&request.proxy.name, &request.uris).map_err(|error| error.to_string())?;
        let leaf = Arc::new(Leaf {
            identity,
            serial: Arc::default(),
            spiffe_id: request.uris.first().cloned().unwrap_or_default().into(),
            version: Version(version),
            not_after: now + LIFETIME,
            renew_at: now + LIFETIME,
        });
        self.known().insert(request.clone(), leaf.clone());
        Ok(leaf)
    }

    fn roots(&self, _: &str, _: &kodiak_rollout::AppliedBackend) -> Result<Arc<str>, String> {
        Ok(self.mesh.pair.roots_pem().into())
    }

    fn source(&self, _: &str, _: &Source) -> Result<Arc<str>, String> {
        Err("the mesh of the bench has no MeshExternalServices".to_owned())
    }

    fn client_pair(
        &self,
        _: &kodiak_model::Kri,
        pair: kodiak_engine::ClientPair,
    ) -> Result<kodiak_engine::ClientPair, String> {
        Ok(pair)
    }

    fn admin(&self, _: &ProxyKey) -> Option<Arc<AdminCertificate>> {
        None
    }
}

impl MeasuredStep {
    fn json(&self) -> Value {
        let Self { phase, took, stats, issued } = self;
        json!({
            "phase": phase, "ms": millis(*took), "encoded": stats.encoded, "woken": stats.woken, "issued": issued,
        })
    }
}

fn table(steps: &[MeasuredStep]) -> Table {
    let mut table = Table::new(["STEP", "MS", "ENCODED", "PROXIES WOKEN", "CERTIFICATES"]);
    for MeasuredStep { phase, took, stats, issued } in steps {
        let phase = format!("{phase:?}").to_lowercase();
        let counts = [stats.encoded.to_string(), stats.woken.to_string(), issued.to_string()];
        table.row([phase, format!("{:.0}", millis(*took))].into_iter().chain(counts));
    }
    table
}
