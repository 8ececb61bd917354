//! `kodiak config control-planes add`: verifies the control plane before it is added.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::builder::NonEmptyStringValueParser;
use kodiak_client::{Client, ControlPlaneInfo};
use kodiak_terminal::usage;

use crate::commands::elsewhere::Elsewhere;
use crate::config_file::{ApiServer, Header};
use crate::session::{Session, endpoint};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak config control-planes add --name local --address http://localhost:5681 --overwrite
  kodiak config control-planes add --name prod --address https://cp.example.com:5682 \\
      --ca-cert-file ca.pem --auth-type tokens --auth-conf token=\"$(cat admin.token)\"

The certificate of the control plane is always verified. If a private CA issued it, pass that CA with
--ca-cert-file; if the control plane uses its self-signed certificate, pass that certificate.")]
pub(super) struct Args {
    /// Name of the control plane and of its context
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    name: String,

    /// Address of the API: http://localhost:5681, https://cp.example.com:5682
    #[arg(long, value_name = "URL")]
    address: String,

    /// Replace an existing control plane of this name
    #[arg(long)]
    overwrite: bool,

    /// CA certificates (PEM) to trust instead of those of this machine
    #[arg(long, value_name = "FILE")]
    ca_cert_file: Option<PathBuf>,

    /// Client certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "client_key_file")]
    client_cert_file: Option<PathBuf>,

    /// Private key of the client certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "client_cert_file")]
    client_key_file: Option<PathBuf>,

    /// Header to send with every request. May be repeated
    #[arg(long = "header", alias = "headers", value_name = "KEY=VALUE", value_parser = kodiak_terminal::key_value)]
    headers: Vec<(String, String)>,

    /// Authentication type
    #[arg(long, value_parser = ["tokens"], requires = "auth_conf")]
    auth_type: Option<String>,

    /// With auth type tokens: token=TOKEN
    #[arg(long, value_name = "KEY=VALUE", value_parser = kodiak_terminal::key_value, requires = "auth_type")]
    auth_conf: Vec<(String, String)>,

    /// Not available: the certificate is always verified
    #[arg(long, hide = true)]
    skip_verify: bool,

    /// Do not connect to the control plane to verify the address
    #[arg(long)]
    skip_check: bool,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    if args.skip_verify {
        return Err(Elsewhere::SkipVerify.into());
    }
    let mut config = session.config()?;
    let name = args.name.clone();
    if config.control_plane(&name).is_some() && !args.overwrite {
        return Err(usage(format!("there is a control plane {name:?} already; pass --overwrite to replace it")));
    }
    let skip_check = args.skip_check;
    let api_server = to_api_server(args)?;
    let endpoint = endpoint(&api_server)?;
    if endpoint.token.is_some() && !endpoint.address.is_https() && !endpoint.address.is_loopback() {
        session
            .terminal
            .error(&format!("Warning: your token is sent to {} without encryption; use https", endpoint.address));
    }
    let client = Client::new(&endpoint, session.timeout())?;
    if !skip_check {
        check(&client).await?;
    }
    config.set(&name, api_server);
    config.current_context.clone_from(&name);
    config.save(&session.config_path()?)?;
    session.terminal.note(&format!("added control plane {name:?}"));
    session.terminal.note(&format!("switched to control plane {name:?}"));
    Ok(())
}

/// Products with this API.
const PRODUCTS: [&str; 2] = ["Kodiak", "Kuma"];

async fn check(client: &Client) -> anyhow::Result<()> {
    let ControlPlaneInfo { product, .. } =
        client.info().await.context("control plane was not added (--skip-check adds it anyway)")?;
    anyhow::ensure!(
        PRODUCTS.contains(&product.as_str()),
        "{} is {product:?}, not a control plane of Kodiak or Kuma",
        client.address()
    );
    Ok(())
}

fn to_api_server(args: Args) -> anyhow::Result<ApiServer> {
    let Args {
        name: _,
        address,
        overwrite: _,
        ca_cert_file,
        client_cert_file,
        client_key_file,
        headers,
        auth_type,
        auth_conf,
        skip_verify: _,
        skip_check: _,
    } = args;
    Ok(ApiServer {
        url: address,
        ca_cert_file: absolute(ca_cert_file.as_deref())?,
        client_cert_file: absolute(client_cert_file.as_deref())?,
        client_key_file: absolute(client_key_file.as_deref())?,
        headers: headers.into_iter().map(|(key, value)| Header { key, value }).collect(),
        auth_type: auth_type.unwrap_or_default(),
        auth_conf: auth_conf.into_iter().map(|(key, value)| (key, value.into())).collect(),
        skip_verify: false,
        other: serde_json::Map::new(),
    })
}

/// Absolute path, since later commands run in other folders.
fn absolute(path: Option<&Path>) -> anyhow::Result<String> {
    let Some(path) = path else { return Ok(String::new()) };
    let absolute = std::path::absolute(path)
        .map_err(|error| usage(format!("{} is not the path of a file: {error}", path.display())))?;
    let text = absolute.to_str().ok_or_else(|| usage(format!("the path {} is not UTF-8", absolute.display())))?;
    Ok(text.to_owned())
}
