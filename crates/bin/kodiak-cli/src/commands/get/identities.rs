//! `kodiak get identities`: the certificate of each proxy.

use jiff::Timestamp;
use kodiak_client::Refusal;
use kodiak_model::yaml;
use kodiak_terminal::{Exit, Table, usage};
use serde_json::json;

use super::{Args, Output, policies::all_meshes};
use crate::identities::{MeshIdentities, ProxyIdentity};
use crate::report::until;
use crate::session::Session;

/// Characters of a serial number in the table.
const SHORT_SERIAL: usize = 8;

pub(super) async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    if let Some(name) = &args.name {
        return Err(usage(format!(
            "`kodiak inspect dataplane {name}` shows one proxy, `kodiak get meshidentity {name}` one MeshIdentity"
        )));
    }
    if args.size.is_some() || args.offset.is_some() || !args.filter.is_empty() {
        return Err(usage("`kodiak get identities` has no pages; filter with --name"));
    }
    let client = session.client()?;
    let meshes = if args.all_meshes { all_meshes(&client).await? } else { vec![session.mesh(args.mesh.as_deref())?] };
    let mut all = Vec::new();
    for mesh in &meshes {
        let mut found = MeshIdentities::read(&client, mesh).await.map_err(|error| {
            if error.refusal().is_some_and(Refusal::is_not_found) {
                return anyhow::anyhow!("no Mesh with name {mesh:?}; `kodiak get meshes` lists them");
            }
            error.into()
        })?;
        found.proxies.retain(|proxy| args.name_part.as_ref().is_none_or(|part| proxy.name.contains(part)));
        all.push(found);
    }
    let document = match all.as_slice() {
        [one] if !args.all_meshes => json!(one),
        all => json!({ "total": all.len(), "items": all }),
    };
    match args.output {
        Output::Table | Output::Wide if all.iter().all(|mesh| mesh.proxies.is_empty()) => {
            let place = if args.all_meshes { String::new() } else { format!(" in mesh {:?}", meshes.join(", ")) };
            session.terminal.remark(&format!("no proxies found{place}"));
        }
        Output::Table | Output::Wide => {
            let opts = Opts { with_mesh: args.all_meshes, wide: args.output == Output::Wide, now: Timestamp::now() };
            session.terminal.result(&table(&all, opts))?;
        }
        Output::Yaml => session.terminal.data(yaml::to_string(&document).trim_end())?,
        Output::Json => session.terminal.data(&serde_json::to_string_pretty(&document)?)?,
    }
    Ok(Exit::Fine)
}

#[derive(Clone, Copy)]
struct Opts {
    with_mesh: bool,
    /// Whole serial numbers.
    wide: bool,
    now: Timestamp,
}

fn table(all: &[MeshIdentities], opts: Opts) -> String {
    let with_errors = all.iter().flat_map(|mesh| &mesh.proxies).any(|proxy| error(proxy).is_some());
    let mut headers = vec!["PROXY", "IDENTITY", "SPIFFE ID", "SERIAL", "EXPIRES", "NEXT ROTATION"];
    if opts.with_mesh {
        headers.insert(0, "MESH");
    }
    if with_errors {
        headers.push("ERROR");
    }
    let mut table = Table::new(headers);
    for mesh in all {
        for proxy in &mesh.proxies {
            let mut row = row(mesh, proxy, opts);
            if opts.with_mesh {
                row.insert(0, mesh.mesh.clone());
            }
            if with_errors {
                row.push(error(proxy).unwrap_or_default().to_owned());
            }
            table.row(row);
        }
    }
    table.show()
}

fn row(mesh: &MeshIdentities, proxy: &ProxyIdentity, opts: Opts) -> Vec<String> {
    let or_none = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let serial: String = proxy.serial_number.chars().take(if opts.wide { usize::MAX } else { SHORT_SERIAL }).collect();
    vec![
        proxy.name.clone(),
        mesh.issuer(&proxy.issuer).to_owned(),
        or_none(&proxy.spiffe_id),
        or_none(&serial),
        proxy.expires.as_deref().map_or("-".to_owned(), |time| until(time, opts.now).unwrap_or("expired".to_owned())),
        proxy.next_rotation.as_deref().map_or("-".to_owned(), |time| until(time, opts.now).unwrap_or("due".to_owned())),
    ]
}

/// Why the next certificate could not be issued, or why there is no SPIFFE ID.
fn error(proxy: &ProxyIdentity) -> Option<&str> {
    Some(proxy.renewal_error.as_str()).filter(|error| !error.is_empty()).or(proxy.problem.as_deref())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn mesh() -> MeshIdentities {
        serde_json::from_value(json!({
            "mesh": "demo",
            "identities": [{ "name": "web", "kri": "kri_mid_demo___web_", "ready": true }],
            "proxies": [
                {
                    "name": "db-1", "connected": true, "issuer": "ca-1", "spiffeID": "spiffe://demo/db",
                    "serialNumber": "0123456789abcdef", "expires": "2026-01-01T20:00:30Z",
                    "nextRotation": "2026-01-01T11:00:00Z",
                },
                {
                    "name": "web-1", "connected": true, "issuer": "kri_mid_demo___web_",
                    "spiffeID": "spiffe://demo.mesh.local/workload/web", "serialNumber": "fedcba9876543210",
                    "expires": "2026-01-02T12:00:00Z", "nextRotation": "2026-01-01T12:30:00Z",
                },
                { "name": "web-2", "connected": false },
            ],
        }))
        .unwrap()
    }

    fn opts() -> Opts {
        Opts { with_mesh: false, wide: false, now: "2026-01-01T12:00:00Z".parse().unwrap() }
    }

    #[test]
    fn certificates_are_listed_by_proxy() {
        expect![[r#"
            PROXY   IDENTITY   SPIFFE ID                               SERIAL     EXPIRES   NEXT ROTATION
            db-1    ca-1       spiffe://demo/db                        01234567   8h        due
            web-1   web        spiffe://demo.mesh.local/workload/web   fedcba98   1d        30m
            web-2   -          -                                       -          -         -"#]]
        .assert_eq(&table(&[mesh()], opts()));
    }

    #[test]
    fn errors_have_a_column_only_if_there_are_any() {
        let mut mesh = mesh();
        mesh.proxies.truncate(2);
        mesh.proxies[1].renewal_error = "the CA expired".to_owned();
        expect![[r#"
            MESH   PROXY   IDENTITY   SPIFFE ID                               SERIAL             EXPIRES   NEXT ROTATION   ERROR
            demo   db-1    ca-1       spiffe://demo/db                        0123456789abcdef   8h        due
            demo   web-1   web        spiffe://demo.mesh.local/workload/web   fedcba9876543210   1d        30m             the CA expired"#]]
        .assert_eq(&table(&[mesh], Opts { with_mesh: true, wide: true, ..opts() }));
    }
}
