//! Collects the migration status of a mesh and the traffic of its proxies.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use kodiak_client::{Client, ClientError, ResourceId};
use kodiak_kinds::kinds;
use serde::Serialize;

use super::answers::{Consumer, Standing};
use super::of_mesh;
use super::traffic::{self, Clusters, Traffic};
use crate::report::Warnings;
use crate::session::Session;

/// Proxies to read concurrently: each costs the control plane a connection.
const AT_A_TIME: usize = 32;
/// Interval of progress output while waiting.
const TICK: Duration = Duration::from_millis(100);

#[derive(Serialize)]
pub(super) struct Gathered {
    #[serde(flatten)]
    pub(super) standing: Standing,
    pub(super) consumers: Vec<Seen>,
}

#[derive(Serialize)]
pub(super) struct Seen {
    #[serde(flatten)]
    pub(super) consumer: Consumer,
    /// `null` when the proxy is offline or does not answer.
    pub(super) traffic: Option<Traffic>,
    /// Error of a proxy that does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trouble: Option<String>,
}

/// Traffic of each proxy, or the error of reading it.
type Answers = BTreeMap<String, Result<Clusters, String>>;

/// With `watch`, statistics are read twice, and only traffic in between counts.
pub(super) async fn gather(
    client: &Client,
    session: &Session,
    mesh: &str,
    watch: Option<Duration>,
) -> anyhow::Result<Gathered> {
    let standing: Standing = client.migration(mesh).await.map_err(|error| of_mesh(error, mesh))?;
    let consumers: Vec<Consumer> = client.consumers(mesh).await.map_err(|error| of_mesh(error, mesh))?;
    let connected: Vec<&str> = consumers.iter().filter(|one| one.connected).map(|one| one.name.as_str()).collect();
    let before = match watch {
        Some(time) => {
            let before = ask_all(client, session, mesh, &connected).await?;
            wait(session, time).await;
            Some(before)
        }
        None => None,
    };
    let mut answers = ask_all(client, session, mesh, &connected).await?;
    let seen = consumers.into_iter().map(|consumer| {
        let services = || standing.services.iter().map(|service| service.service.as_str());
        let answer = answers.remove(&consumer.name).unwrap_or_else(|| Err("it is not connected".to_owned()));
        let earlier = before.as_ref().map(|before| before.get(&consumer.name).and_then(|answer| answer.as_ref().ok()));
        let traffic = match (answer, earlier) {
            (Ok(clusters), None) => Ok(Traffic::of(&clusters, None, services())),
            (Ok(clusters), Some(Some(earlier))) => Ok(Traffic::of(&clusters, Some(earlier), services())),
            (Ok(_), Some(None)) => Err("it answered only at the end".to_owned()),
            (Err(why), _) => Err(why),
        };
        let (traffic, trouble) = traffic.map_or_else(|why| (None, Some(why)), |traffic| (Some(traffic), None));
        Seen { consumer, traffic, trouble }
    });
    let consumers: Vec<Seen> = seen.collect();
    warn(session, &consumers);
    Ok(Gathered { standing, consumers })
}

async fn ask_all(client: &Client, session: &Session, mesh: &str, proxies: &[&str]) -> anyhow::Result<Answers> {
    let kind = kinds().by_name("Dataplane").expect("proxies have Dataplanes");
    let bar = session.terminal.progress("Asking proxies", proxies.len());
    let asking = proxies.iter().map(|name| async move {
        let answer = client.inspect_text(ResourceId { kind, mesh, name }, "stats").await;
        ((*name).to_owned(), answer)
    });
    let mut asking = stream::iter(asking).buffer_unordered(AT_A_TIME);
    let mut answers = Answers::new();
    while let Some((name, answer)) = asking.next().await {
        bar.inc(1);
        let answer = match answer {
            Ok(stats) => Ok(traffic::read(&stats)),
            Err(ClientError::Refused(refusal)) => Err(refusal.to_string()),
            Err(error @ ClientError::TimedOut { .. }) => Err(error.to_string()),
            // The control plane became unreachable, so the others cannot be read either.
            Err(error) => return Err(error.into()),
        };
        answers.insert(name, answer);
    }
    bar.finish_and_clear();
    Ok(answers)
}

/// Errors of connected proxies that do not answer.
fn warn(session: &Session, consumers: &[Seen]) {
    let mut warnings = Warnings::default();
    for seen in consumers.iter().filter(|seen| seen.consumer.connected) {
        if let Some(why) = &seen.trouble {
            warnings.add(&format!("cannot read the statistics of a proxy: {why}"), || seen.consumer.name.clone());
        }
    }
    warnings.lines().for_each(|line| session.terminal.remark(&line));
}

async fn wait(session: &Session, time: Duration) {
    let spinner = session.terminal.spinner();
    spinner.set_message(format!("Watching for {time:?}"));
    spinner.enable_steady_tick(TICK);
    tokio::time::sleep(time).await;
    spinner.finish_and_clear();
}
