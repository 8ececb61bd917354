//! Tokens: issued by the control plane, or signed offline with a given key.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use jiff::Timestamp;
use kodiak_terminal::usage;
use kodiak_tokens::{DataplaneClaims, KeyId, SigningKey, TokenError, UserClaims, ZoneClaims};
use serde_json::json;

use super::keys;
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak generate dataplane-token --name web-1 --valid-for 24h > /tmp/web-1.token
  kodiak generate dataplane-token --mesh demo --tag kuma.io/service=web,web-admin --valid-for 30d
  kodiak generate dataplane-token --tag kuma.io/service=web --label app=web --valid-for 30d
  kodiak generate dataplane-token --workload web --label app=web --valid-for 24h --signing-key-path key.pem --kid 1

A proxy that registers its own Dataplane may claim whatever its token does not bind. Bind what MeshServices select it by, and
the labels of its SPIFFE ID; a MeshService names members whose tokens do not in its condition MembersVouchedFor.")]
pub(super) struct DataplaneArgs {
    /// Only for the proxy with this name
    #[arg(long)]
    name: Option<String>,

    /// Only for proxies in this mesh [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// Only for proxies with these values of a tag. May be repeated
    #[arg(long = "tag", value_name = "KEY=VALUE,VALUE", value_parser = kodiak_terminal::key_value)]
    tags: Vec<(String, String)>,

    /// Only for proxies with these values of a label. May be repeated
    #[arg(long = "label", value_name = "KEY=VALUE,VALUE", value_parser = kodiak_terminal::key_value)]
    labels: Vec<(String, String)>,

    /// Only for proxies of this workload (label kuma.io/workload). It also counts for the service of the same name
    #[arg(long)]
    workload: Option<String>,

    /// Type of the proxy
    #[arg(long, alias = "type", value_enum, default_value_t = ProxyType::Dataplane)]
    proxy_type: ProxyType,

    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak generate zone-token --zone east --valid-for 30d > /tmp/east.token
  kodiak generate zone-token --zone east --scope ingress --valid-for 24h --signing-key-path key.pem --kid 1")]
pub(super) struct ZoneArgs {
    /// Zone
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    zone: String,

    /// Scope of the token
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [ZoneScope::Ingress, ZoneScope::Egress])]
    scope: Vec<ZoneScope>,

    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak generate user-token --name jo --group mesh-system:admin --valid-for 24h
  kodiak generate user-token --name ci --group ci --group readers --valid-for 1y --signing-key-path key.pem --kid 1")]
pub(super) struct UserArgs {
    /// Name of the user
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    name: String,

    /// Group of the user. May be repeated
    #[arg(long = "group", value_delimiter = ',')]
    groups: Vec<String>,

    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
struct Common {
    /// Lifetime of the token: 24h, 1h30m, 30d, 1y
    #[arg(long, value_parser = kodiak_tokens::parse_valid_for)]
    valid_for: Duration,

    /// Sign offline with this private key, without the control plane
    #[arg(long, value_name = "FILE", requires = "kid")]
    signing_key_path: Option<PathBuf>,

    /// ID of that key: the number at the end of its secret's name
    #[arg(long, value_name = "ID", requires = "signing_key_path")]
    kid: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ProxyType {
    Dataplane,
    Ingress,
    Egress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ZoneScope {
    Ingress,
    Egress,
}

pub(super) async fn dataplane(args: DataplaneArgs, session: &Session) -> anyhow::Result<String> {
    let DataplaneArgs { name, mesh, tags, labels, workload, proxy_type, common } = args;
    let claims = DataplaneClaims {
        name: name.unwrap_or_default(),
        mesh: session.mesh(mesh.as_deref())?,
        tags: tag_values(&tags),
        kind: match proxy_type {
            ProxyType::Dataplane => "dataplane",
            ProxyType::Ingress => "ingress",
            ProxyType::Egress => "egress",
        }
        .to_owned(),
        workload: workload.unwrap_or_default(),
        labels: tag_values(&labels),
    };
    let DataplaneClaims { name, mesh, tags, kind, workload, labels } = &claims;
    let mut request = json!({
        "name": name, "mesh": mesh, "tags": tags, "type": kind, "workload": workload, "validFor": common.valid_for(),
    });
    // An older control plane would ignore it, and the token would be less restricted than requested.
    if !labels.is_empty() {
        request["labels"] = json!(labels);
    }
    let sign = |key: &SigningKey| kodiak_tokens::issue_dataplane(&claims, key, common.valid_for, Timestamp::now());
    common.token(session, "/tokens/dataplane", &request, sign).await
}

pub(super) async fn zone(args: ZoneArgs, session: &Session) -> anyhow::Result<String> {
    let ZoneArgs { zone, scope, common } = args;
    let word = |scope: &ZoneScope| match scope {
        ZoneScope::Ingress => "ingress".to_owned(),
        ZoneScope::Egress => "egress".to_owned(),
    };
    let claims = ZoneClaims { zone, scope: scope.iter().map(word).collect() };
    let request = json!({ "zone": claims.zone, "scope": claims.scope, "validFor": common.valid_for() });
    let sign = |key: &SigningKey| kodiak_tokens::issue_zone(&claims, key, common.valid_for, Timestamp::now());
    common.token(session, "/tokens/zone", &request, sign).await
}

pub(super) async fn user(args: UserArgs, session: &Session) -> anyhow::Result<String> {
    let UserArgs { name, groups, common } = args;
    let claims = UserClaims { name, groups };
    let request = json!({ "name": claims.name, "groups": claims.groups, "validFor": common.valid_for() });
    let sign = |key: &SigningKey| kodiak_tokens::issue_user(&claims, key, common.valid_for, Timestamp::now());
    common.token(session, "/tokens/user", &request, sign).await
}

impl Common {
    /// In seconds: Go's durations have no days, so older servers reject them.
    fn valid_for(&self) -> String {
        format!("{}s", self.valid_for.as_secs())
    }

    async fn token(
        &self,
        session: &Session,
        path: &str,
        request: &serde_json::Value,
        sign: impl Fn(&SigningKey) -> Result<String, TokenError>,
    ) -> anyhow::Result<String> {
        let (Some(file), Some(kid)) = (&self.signing_key_path, &self.kid) else {
            return Ok(session.client()?.token(path, request).await?);
        };
        let kid = KeyId::parse(kid).map_err(|error| usage(format!("--kid: {error}")))?;
        let key = SigningKey::from_bytes(kid, &keys::read(file)?)
            .map_err(|error| usage(format!("{}: {:#}", file.display(), anyhow::Error::from(error))))?;
        Ok(sign(&key)?)
    }
}

/// `a=x,y` and `a=z` mean that `a` is one of x, y and z.
fn tag_values(tags: &[(String, String)]) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, values) in tags {
        let values = values.split(',').map(str::trim).filter(|value| !value.is_empty());
        all.entry(key.clone()).or_default().extend(values.map(str::to_owned));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_values_of_a_tag() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let all = tag_values(&[pair("a", "x, y"), pair("b", "1"), pair("a", "z,")]);
        assert_eq!(all["a"], ["x", "y", "z"]);
        assert_eq!(all["b"], ["1"]);
    }
}
