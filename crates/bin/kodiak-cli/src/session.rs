//! Context of a command: global flags, the selected control plane, and the terminal.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kodiak_client::{Address, Client, ClientCertificate, Endpoint};
use kodiak_terminal::{Terminal, usage};

use crate::GlobalArgs;
use crate::config_file::{ApiServer, ConfigContext, ConfigFile, Header};

/// Unix socket of a control plane of this user, relative to the home folder.
const SOCKET: &str = ".kodiak/kodiak.sock";
/// Mesh without a flag and without one in the context.
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
        if let Some(path) = std::env::var_os("KODIAK_CONFIG").filter(|path| !path.is_empty()) {
            return Ok(path.into());
        }
        let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
        let home =
            home.ok_or_else(|| usage("there is no home folder; pass the configuration file with --config-file"))?;
        Ok(home.join(".kodiak/config"))
    }

    pub(crate) fn config(&self) -> anyhow::Result<ConfigFile> {
        ConfigFile::load(&self.config_path()?)
    }

    /// Timeout of a request; `None` disables it.
    pub fn timeout(&self) -> Option<Duration> {
        self.flags.api_timeout.to_std().filter(|limit| !limit.is_zero())
    }

    pub fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::new(&self.endpoint()?, self.timeout())?)
    }

    /// Client of another control plane than the selected one, with these credentials or those of the configuration.
    pub(crate) fn client_of(&self, url: &str, token: Option<&str>, ca: Option<&Path>) -> anyhow::Result<Client> {
        let mut endpoint = self.endpoint_of(url)?;
        if let Some(token) = token {
            endpoint.token = Some(token.to_owned());
        }
        if let Some(ca) = ca {
            endpoint.ca_cert_file = Some(ca.to_owned());
        }
        Ok(Client::new(&endpoint, self.timeout())?)
    }

    /// Mesh of the flag, of the context, or the default one.
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
        if let Some(url) = &self.flags.cp {
            return self.endpoint_of(url);
        }
        let config = self.config()?;
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

    /// For a configured control plane, its credentials are used.
    fn endpoint_of(&self, url: &str) -> anyhow::Result<Endpoint> {
        let config = self.config()?;
        let address = Address::parse(url)?;
        let mut known = config.control_planes.iter().map(|known| &known.coordinates.api_server);
        let this = known.find(|known| Address::parse(&known.url).is_ok_and(|known| known == address));
        this.map_or_else(|| Ok(Endpoint::anonymous(address)), endpoint)
    }

    fn context<'a>(&self, config: &'a ConfigFile) -> anyhow::Result<&'a ConfigContext> {
        let name = self.flags.context.as_deref().unwrap_or(&config.current_context);
        if name.is_empty() {
            return Err(usage(
                "no control plane is selected; select one with `kodiak config control-planes switch --name NAME`, or pass --cp URL",
            ));
        }
        config.context(name).ok_or_else(|| {
            let names: Vec<_> = config.contexts.iter().map(|context| context.name.as_str()).collect();
            usage(format!("there is no context {name:?} in the configuration; it has {}", names.join(", ")))
        })
    }
}

/// Unix socket to use instead of the default address, if a control plane listens there.
///
/// Only for the default control plane `local`: a token, a header or another address was configured on purpose.
pub(crate) fn local_socket(api_server: &ApiServer) -> Option<PathBuf> {
    if !api_server.is_local() {
        return None;
    }
    let path = std::env::home_dir()?.join(SOCKET);
    // A killed control plane leaves its socket behind, and other users may not open it.
    std::os::unix::net::UnixStream::connect(&path).is_ok().then_some(path)
}

/// Endpoint of a configured control plane.
pub(crate) fn endpoint(api_server: &ApiServer) -> anyhow::Result<Endpoint> {
    let address = Address::parse(&api_server.url)?;
    if api_server.skip_verify {
        return Err(usage(format!(
            "the configuration disables verification of {address} (skipVerify), which Kodiak does not support; \
             pass its CA instead: kodiak config control-planes add --name NAME --address {address} --overwrite --ca-cert-file CA.pem"
        )));
    }
    let token = match api_server.auth_type.as_str() {
        "" => None,
        "tokens" => match api_server.auth_conf.get("token").and_then(serde_json::Value::as_str) {
            Some(token) => Some(token.to_owned()),
            None => return Err(usage("auth type tokens needs a token; pass it with --auth-conf token=TOKEN")),
        },
        other => return Err(usage(format!("auth type {other:?} is not supported; use tokens"))),
    };
    let client_cert = match (api_server.client_cert_file.as_str(), api_server.client_key_file.as_str()) {
        ("", "") => None,
        ("", _) | (_, "") => return Err(usage("--client-cert-file and --client-key-file must be used together")),
        (cert, key) => Some(ClientCertificate { cert_file: cert.into(), key_file: key.into() }),
    };
    Ok(Endpoint {
        address,
        ca_cert_file: Some(&api_server.ca_cert_file).filter(|file| !file.is_empty()).map(PathBuf::from),
        client_cert,
        headers: api_server.headers.iter().map(|Header { key, value }| (key.clone(), value.clone())).collect(),
        token,
    })
}
