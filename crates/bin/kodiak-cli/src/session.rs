//! What every command starts with: the flags, the chosen control plane, and a place to write to.

use std::path::PathBuf;
use std::time::Duration;

use kodiak_client::{Address, Client, ClientCert, Endpoint};
use kodiak_terminal::{Terminal, usage};

use crate::GlobalArgs;
use crate::config_file::{ApiServer, Config, Context, Header};

/// Where a control plane of this user has its socket, below the home folder.
const SOCKET: &str = ".kodiak/kodiak.sock";
/// The mesh that is meant when nothing else is said.
const DEFAULT_MESH: &str = "default";

pub struct Session {
    flags: GlobalArgs,
    pub terminal: Terminal,
}

impl Session {
    pub fn new(flags: GlobalArgs) -> Self {
        let terminal = Terminal::new(flags.quiet, flags.no_color);
        Self { flags, terminal }
    }

    pub(crate) fn config_path(&self) -> anyhow::Result<PathBuf> {
        if let Some(path) = &self.flags.config_file {
            return Ok(path.clone());
        }
        let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
        let home =
            home.ok_or_else(|| usage("there is no home folder; say where the configuration is with --config-file"))?;
        Ok(home.join(".kodiak/config"))
    }

    pub(crate) fn config(&self) -> anyhow::Result<Config> {
        Config::load(&self.config_path()?)
    }

    /// Of one request; `None` waits for ever.
    pub fn timeout(&self) -> Option<Duration> {
        self.flags.api_timeout.to_std().filter(|limit| !limit.is_zero())
    }

    pub fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::new(&self.endpoint()?, self.timeout())?)
    }

    /// The mesh of a flag, of the context, or the default one.
    pub(crate) fn mesh(&self, flag: Option<&str>) -> anyhow::Result<String> {
        if let Some(mesh) = flag {
            return Ok(mesh.to_owned());
        }
        if self.flags.cp.is_some() {
            return Ok(DEFAULT_MESH.to_owned());
        }
        let config = self.config()?;
        let defaults = self.context(&config)?.defaults.as_ref();
        let mesh = defaults.map(|defaults| defaults.mesh.as_str()).filter(|mesh| !mesh.is_empty());
        Ok(mesh.unwrap_or(DEFAULT_MESH).to_owned())
    }

    fn endpoint(&self) -> anyhow::Result<Endpoint> {
        let config = self.config()?;
        if let Some(url) = &self.flags.cp {
            let address = Address::parse(url)?;
            // A control plane that we know is shown what we have for it.
            let mut known = config.control_planes.iter().map(|known| &known.coordinates.api_server);
            let this = known.find(|known| Address::parse(&known.url).is_ok_and(|known| known == address));
            return this.map_or_else(|| Ok(Endpoint::anonymous(address)), endpoint);
        }
        let context = self.context(&config)?;
        let Some(control_plane) = config.control_plane(&context.control_plane) else {
            return Err(usage(format!(
                "context {:?} is for control plane {:?}, which the configuration does not have; add it with `kodiak config control-planes add`",
                context.name, context.control_plane
            )));
        };
        let api_server = &control_plane.coordinates.api_server;
        match local_socket(api_server) {
            Some(socket) => Ok(Endpoint::anonymous(Address::Socket(socket))),
            None => endpoint(api_server),
        }
    }

    fn context<'a>(&self, config: &'a Config) -> anyhow::Result<&'a Context> {
        let name = self.flags.context.as_deref().unwrap_or(&config.current_context);
        if name.is_empty() {
            return Err(usage(
                "no control plane is chosen; choose one with `kodiak config control-planes switch --name NAME`, or pass --cp URL",
            ));
        }
        config.context(name).ok_or_else(|| {
            let names: Vec<_> = config.contexts.iter().map(|context| context.name.as_str()).collect();
            usage(format!("there is no context {name:?} in the configuration; it has {}", names.join(", ")))
        })
    }
}

/// The socket that is used in place of the address of this machine's control plane, if one listens there.
///
/// `local` is what holds where nothing else is configured; whoever has written a token, a header or another address
/// means just that.
pub(crate) fn local_socket(api_server: &ApiServer) -> Option<PathBuf> {
    if !api_server.is_local() {
        return None;
    }
    let path = std::env::home_dir()?.join(SOCKET);
    // The socket of a control plane that was killed is left behind; and other users may not open it.
    std::os::unix::net::UnixStream::connect(&path).is_ok().then_some(path)
}

/// From what the configuration says to what a client needs.
pub(crate) fn endpoint(api_server: &ApiServer) -> anyhow::Result<Endpoint> {
    let address = Address::parse(&api_server.url)?;
    if api_server.skip_verify {
        return Err(usage(format!(
            "the configuration asks to trust {address} blindly (skipVerify), which Kodiak does not do; \
             pass its CA instead: kodiak config control-planes add --name NAME --address {address} --overwrite --ca-cert-file CA.pem"
        )));
    }
    let token = match api_server.auth_type.as_str() {
        "" => None,
        "tokens" => match api_server.auth_conf.get("token").and_then(serde_json::Value::as_str) {
            Some(token) => Some(token.to_owned()),
            None => return Err(usage("auth type tokens needs a token; pass it with --auth-conf token=TOKEN")),
        },
        other => return Err(usage(format!("auth type {other:?} is not known; there is only tokens"))),
    };
    let client_cert = match (api_server.client_cert_file.as_str(), api_server.client_key_file.as_str()) {
        ("", "") => None,
        ("", _) | (_, "") => return Err(usage("--client-cert-file and --client-key-file need each other")),
        (cert, key) => Some(ClientCert { cert_file: cert.into(), key_file: key.into() }),
    };
    Ok(Endpoint {
        address,
        ca_cert_file: Some(&api_server.ca_cert_file).filter(|file| !file.is_empty()).map(PathBuf::from),
        client_cert,
        headers: api_server.headers.iter().map(|Header { key, value }| (key.clone(), value.clone())).collect(),
        token,
    })
}
