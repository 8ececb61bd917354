//! `kodiak config control-planes add`: nothing is kept that does not work.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::builder::NonEmptyStringValueParser;
use kodiak_client::{Client, Index};
use kodiak_terminal::usage;

use crate::config_file::{ApiServer, Header};
use crate::session::{Session, endpoint};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak config control-planes add --name local --address http://localhost:5681 --overwrite
  kodiak config control-planes add --name prod --address https://cp.example.com:5682 \\
      --ca-cert-file ca.pem --auth-type tokens --auth-conf token=\"$(cat admin.token)\"

The certificate of the control plane is always verified. If it is signed by an authority of your own,
pass that with --ca-cert-file; for the certificate that a control plane made for itself, pass that certificate.")]
pub(super) struct Args {
    /// How you will call it
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    name: String,

    /// Its API: http://localhost:5681, https://cp.example.com:5682
    #[arg(long, value_name = "URL")]
    address: String,

    /// Replace the one that has this name
    #[arg(long)]
    overwrite: bool,

    /// Believe certificates signed by these authorities, in PEM, and by no others
    #[arg(long, value_name = "FILE")]
    ca_cert_file: Option<PathBuf>,

    /// A certificate to show, in PEM
    #[arg(long, value_name = "FILE", requires = "client_key_file")]
    client_cert_file: Option<PathBuf>,

    /// Its key
    #[arg(long, value_name = "FILE", requires = "client_cert_file")]
    client_key_file: Option<PathBuf>,

    /// A header to send with every request. May be repeated
    #[arg(long = "header", alias = "headers", value_name = "KEY=VALUE", value_parser = kodiak_terminal::key_value)]
    headers: Vec<(String, String)>,

    /// How to say who you are
    #[arg(long, value_parser = ["tokens"], requires = "auth_conf")]
    auth_type: Option<String>,

    /// With auth type tokens: token=TOKEN
    #[arg(long, value_name = "KEY=VALUE", value_parser = kodiak_terminal::key_value, requires = "auth_type")]
    auth_conf: Vec<(String, String)>,

    /// Do not ask the control plane whether it is one
    #[arg(long)]
    skip_check: bool,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
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

/// The products whose API this is.
const PRODUCTS: [&str; 2] = ["Kodiak", "Kuma"];

async fn check(client: &Client) -> anyhow::Result<()> {
    let Index { product, .. } = client.index().await.context("it was not added (--skip-check adds it all the same)")?;
    anyhow::ensure!(
        PRODUCTS.contains(&product.as_str()),
        "{} says that it is {product:?}, not a control plane of Kodiak or Kuma",
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

/// The command is run in other folders later on.
fn absolute(path: Option<&Path>) -> anyhow::Result<String> {
    let Some(path) = path else { return Ok(String::new()) };
    let absolute = std::path::absolute(path)
        .map_err(|error| usage(format!("{} is not the path of a file: {error}", path.display())))?;
    let text = absolute.to_str().ok_or_else(|| usage(format!("the path {} is not UTF-8", absolute.display())))?;
    Ok(text.to_owned())
}
