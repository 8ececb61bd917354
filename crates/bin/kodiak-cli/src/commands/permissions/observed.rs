//! `kodiak permissions observed`.

use jiff::SignedDuration;
use kodiak_terminal::{Exit, Table};

use super::plaintext;
use super::traffic::{ObservedTraffic, TrafficArgs, length, time};
use crate::report::Output;
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak permissions observed
  kodiak permissions observed -m demo -o json > traffic.json    save it for `kodiak permissions draft -f`
  kodiak permissions observed -o json | jq -r '.edges[] | select(.failed > 0) | .client + \" \" + .destination'

  CLIENT       its kuma.io/service values; workload/NAME for a client without them
  DESTINATION  a kuma.io/service, or the KRI of a MeshService, MeshExternalService or MeshMultiZoneService
  REQUESTS     HTTP requests with retries, or TCP connections; FAILED: with a 5xx response or without a response
  OBSERVED     for how long proxies of the client reported; less than the window means gaps

Below are callers without mTLS of inbounds that accept them, by source address. A DATAPLANE has this address, so its
application does not call through its proxy. Strict mTLS refuses all of them; permissions do not apply to them.

Traffic is observed when the control plane runs with KODIAK_TRAFFIC_OBSERVE=true, from proxies that were started since.
Callers without mTLS are observed where inbounds accept both: with mode PERMISSIVE of the mesh, or a MeshTLS.
Calls to destinations without endpoints are not observed. Calls that a permission denies are.")]
pub(crate) struct Args {
    #[command(flatten)]
    traffic: TrafficArgs,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(super) async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let traffic = ObservedTraffic::read(&args.traffic, session).await?;
    let terminal = session.terminal;
    terminal.data(&args.output.show(&traffic, || table(&traffic))?)?;
    if args.output == Output::Table {
        for line in summary(&traffic) {
            terminal.remark(&line);
        }
    }
    Ok(Exit::Fine)
}

fn table(traffic: &ObservedTraffic) -> String {
    let columns = ["CLIENT", "DESTINATION", "REQUESTS", "FAILED", "FIRST SEEN", "LAST SEEN", "OBSERVED"];
    let mut table = Table::new(columns);
    for edge in &traffic.edges {
        let observed = traffic.client(&edge.client).map(|client| client.observed_seconds);
        let observed = observed.and_then(|seconds| i64::try_from(seconds).ok());
        table.row([
            edge.client.clone(),
            edge.destination.clone(),
            edge.requests.to_string(),
            edge.failed.to_string(),
            time(edge.first_seen),
            time(edge.last_seen),
            observed.map_or_else(|| "-".to_owned(), |seconds| length(SignedDuration::from_secs(seconds))),
        ]);
    }
    if traffic.plaintext.is_empty() {
        return table.show();
    }
    format!("{}\n\n{}", table.show(), plaintext::table(&traffic.plaintext))
}

/// Lines for stderr.
fn summary(traffic: &ObservedTraffic) -> Vec<String> {
    let mut lines = vec![match traffic.window.show() {
        Some(window) => format!("Observed from {window}"),
        None => "No proxy has reported traffic".to_owned(),
    }];
    lines.extend(traffic.warnings());
    lines
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::commands::permissions::traffic::tests::traffic;

    #[test]
    fn table_has_a_row_for_each_edge() {
        let traffic = traffic();
        expect![[r#"
            CLIENT           DESTINATION                 REQUESTS   FAILED   FIRST SEEN             LAST SEEN              OBSERVED
            web              backend                     1200       120      2026-11-16T20:00:00Z   2026-11-16T22:00:00Z   1h 30m
            job              backend                     1          0        2026-11-16T20:00:00Z   2026-11-16T20:00:00Z   1h 30m
            api,web          backend                     7          0        2026-11-16T20:00:00Z   2026-11-16T22:00:00Z   1h 30m
            a,b              Odd_svc_80                  3          0        2026-11-16T20:00:00Z   2026-11-16T22:00:00Z   1h 30m
            web              kri_mzsvc_shop___cart_      40         4        2026-11-16T20:00:00Z   2026-11-16T22:00:00Z   1h 30m
            job              kri_msvc_shop_east__cart_   2          0        2026-11-16T20:00:00Z   2026-11-16T22:00:00Z   1h 30m
            web              kri_extsvc_shop_east__db_   9          0        2026-11-16T20:00:00Z   2026-11-16T22:00:00Z   1h 30m
            web              kri_msvc_shop_east__old_    5          0        2026-11-16T20:00:00Z   2026-11-16T22:00:00Z   1h 30m
            workload/batch   backend                     5          0        2026-11-16T20:00:00Z   2026-11-16T22:00:00Z   1h 30m
            Observed from 2026-11-16T20:00:00Z to 2026-11-16T22:00:00Z (2h)
        "#]]
        .assert_eq(&format!("{}\n{}\n", table(&traffic), summary(&traffic).join("\n")));
    }
}
