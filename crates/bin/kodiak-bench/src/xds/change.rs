//! Cost of one change.

use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::Value;

use super::{
    super::{
        results::{Results, millis},
        server::Server,
    },
    crowd::Crowd,
};

/// Counters of the control plane.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    /// Durable commits of the store.
    pub(super) commits: f64,
    /// Batches of changes that the engine applied.
    pub(super) rounds: f64,
    pub(super) encoded: f64,
    pub(super) woken: f64,
    pub(super) bytes: f64,
}

impl Counted {
    pub(super) async fn now(server: &Server) -> anyhow::Result<Self> {
        let metrics = server.metrics().await?;
        Ok(Self {
            commits: metrics.sum("kodiak_store_commits_total", ""),
            rounds: metrics.sum("kodiak_xds_engine_rounds_total", ""),
            encoded: metrics.sum("kodiak_xds_resources_encoded_total", ""),
            woken: metrics.sum("kodiak_xds_proxies_woken_total", ""),
            bytes: metrics.sum("kodiak_xds_sent_bytes_total", ""),
        })
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self {
            commits: self.commits - before.commits,
            rounds: self.rounds - before.rounds,
            encoded: self.encoded - before.encoded,
            woken: self.woken - before.woken,
            bytes: self.bytes - before.bytes,
        }
    }
}

pub(super) struct MeasuredChange {
    counted: Counted,
    cpu: f64,
    /// Sorted times of all proxies.
    times: Vec<Duration>,
}

impl MeasuredChange {
    /// Writes the change, and waits until all proxies received it.
    pub(super) async fn measure(
        server: &Server,
        crowd: &mut Crowd,
        path: &str,
        document: &Value,
    ) -> anyhow::Result<Self> {
        let (before, cpu) = (Counted::now(server).await?, server.cpu()?);
        let start = Instant::now();
        server.write_api(Method::PUT, path, document).await?;
        let times = crowd.changed(start).await?;
        let cpu = server.cpu()? - cpu;
        Ok(Self { counted: Counted::now(server).await?.since(before), cpu, times })
    }

    /// Summary of equal changes: times of the median run, and counts of the first one, since later ones may find encoded
    /// resources in a cache.
    pub(super) fn report(mut runs: Vec<Self>, key: &str, what: &str, results: &mut Results) {
        let Some(Counted { encoded, woken, bytes, .. }) = runs.first().map(|run| run.counted) else { return };
        runs.sort_by_key(|run| run.times.last().copied());
        let Self { cpu, times, .. } = runs.swap_remove(runs.len() / 2);
        let at = |hundredths: usize| times.get(times.len() * hundredths / 100).or(times.last()).copied();
        let mut add = |field: &str, unit: &str, value: f64| {
            results.add(format!("{key}.{field}"), format!("{what}: {unit}"), value);
        };
        add("encoded", "resources encoded", encoded);
        add("woken", "proxies woken", woken);
        add("bytes", "bytes", bytes);
        add("p50_ms", "p50, ms", millis(at(50).unwrap_or_default()));
        add("p99_ms", "p99, ms", millis(at(99).unwrap_or_default()));
        add("max_ms", "last proxy, ms", millis(at(100).unwrap_or_default()));
        add("server_cpu_s", "CPU time of the control plane, s", cpu);
    }
}
