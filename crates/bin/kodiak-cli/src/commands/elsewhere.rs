//! Commands of kumactl that Kodiak does in another way, or not at all. They answer with the way, and exit with 2.

use kodiak_terminal::usage;

/// Arguments of a command that does nothing with them.
#[derive(clap::Args)]
#[command(after_help = "It only prints which command or page to use instead.")]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _all: Vec<String>,
}

/// A command of kumactl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    ControlPlane,
    Crds,
    Demo,
    Observability,
    Validator,
    ZoneProxy,
    SkipVerify,
    Kubernetes,
}

impl Elsewhere {
    fn answer(self) -> &'static str {
        match self {
            Self::ControlPlane => {
                "there is nothing to install: `kodiak run` starts a control plane (docs/operations/configuration.md); \
                 Kubernetes is not supported yet"
            }
            Self::Crds => {
                "there are no CRDs: Kubernetes is not supported yet; `kodiak apply -f FILE` stores resources in the \
                 control plane"
            }
            Self::Demo => "`kodiak demo` runs a mesh with real Envoys and traffic on this machine",
            Self::Observability => {
                "Kodiak installs no Prometheus, Grafana or Jaeger; docs/operations/monitoring.md shows what to scrape"
            }
            Self::Validator => "`kodiak install transparent-proxy --dry-run` prints the rules without installing them",
            Self::ZoneProxy => {
                "no zone ingress or egress connects to Kodiak yet (docs/differences.md); `kodiak inspect zoneingresses` \
                 and `kodiak inspect zoneegresses` list the stored resources"
            }
            Self::SkipVerify => {
                "Kodiak always verifies the certificate of a control plane; pass its CA, or its self-signed certificate, \
                 with --ca-cert-file"
            }
            Self::Kubernetes => {
                "Kubernetes objects are not exported; `GET /meshes/MESH/PATH/NAME?format=k8s` of the REST API shows one \
                 resource so"
            }
        }
    }
}

impl From<Elsewhere> for anyhow::Error {
    fn from(elsewhere: Elsewhere) -> Self {
        usage(elsewhere.answer())
    }
}
