//! How proxies are treated, from the configuration.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use kodiak_metrics::Metrics;
use kodiak_model::GoDuration;
use kodiak_proxies::{Authn, Registry, Settings};
use kodiak_store::Store;
use kodiak_xds::health::Timing;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::{
    certificate::Certificate,
    config::{Config, DpProxyAuthnType, Hds, HdsCheck},
};

/// How often the leader looks for proxies that are gone.
const UPKEEP: Duration = Duration::from_mins(1);

pub(crate) fn settings(
    config: &Config,
    instance_id: &str,
    certificate: &Certificate,
    port: u16,
    metrics: &Metrics,
) -> Settings {
    let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
    let xds = &config.xds_server;
    let xds_host = &config.bootstrap_server.params.xds_host;
    Settings {
        authn: match config.dp_server.authn.dp_proxy.authn_type {
            DpProxyAuthnType::DpToken => Authn::DataplaneToken,
            DpProxyAuthnType::None => Authn::None,
        },
        deregistration_delay: seconds(xds.dataplane_deregistration_delay_seconds),
        insight_interval: seconds(xds.dataplane_status_flush_interval_seconds.max(1)),
        idle_timeout: seconds(xds.idle_timeout_seconds.max(2)),
        cleanup_age: Duration::from_hours(u64::from(xds.dataplane_cleanup_age_hours.max(1))),
        xds_host: (!xds_host.is_empty()).then(|| xds_host.clone()),
        xds_port: port,
        server_names: certificate.names.clone(),
        ca: Some(certificate.pem.clone()),
        check_authority: Arc::new(|pem| match kodiak_crypto::certificates(pem.as_bytes()) {
            Ok(certificates) if !certificates.is_empty() => Ok(()),
            Ok(_) => Err("there is no certificate in it".to_owned()),
            Err(error) => Err(error.to_string()),
        }),
        health: config.dp_server.hds.enabled.then(|| timing(&config.dp_server.hds)),
        observer: Some(Arc::new(metrics.xds.clone())),
        ..Settings::new(instance_id)
    }
}

/// Times that are not positive become the shortest there are.
fn timing(hds: &Hds) -> Timing {
    let time = |time: GoDuration| time.to_std().unwrap_or_default();
    let Hds { enabled: _, interval: report, check_defaults } = hds;
    let HdsCheck { timeout, interval, no_traffic_interval, healthy_threshold, unhealthy_threshold } = check_defaults;
    Timing {
        report: time(*report),
        timeout: time(*timeout),
        interval: time(*interval),
        no_traffic_interval: time(*no_traffic_interval),
        healthy_threshold: *healthy_threshold,
        unhealthy_threshold: *unhealthy_threshold,
    }
}

/// Closes connections that are said to be open and are not, and deletes Dataplanes of proxies long gone, on the leader.
///
/// A proxy that was connected to a control plane which died gets `grace` to come back, from the moment the control plane
/// was lost or this one started to watch, whichever is later.
pub(crate) async fn upkeep(
    registry: Registry,
    store: Store,
    grace: Duration,
    drain: CancellationToken,
) -> anyhow::Result<()> {
    let mut leadership = store.leadership();
    let mut presence = store.presence();
    let mut present = BTreeSet::new();
    let mut period = tokio::time::interval(UPKEEP);
    let mut due: Option<Instant> = None;
    // A store that only one process can have open tells of nobody else.
    let (mut elects, mut hears) = (true, true);
    loop {
        let mut full = false;
        tokio::select! {
            biased;
            () = drain.cancelled() => return Ok(()),
            _ = period.tick() => full = true,
            () = until(due) => (),
            changed = leadership.changed(), if elects => elects = changed.is_ok(),
            changed = presence.changed(), if hears => {
                hears = changed.is_ok();
                // Most looks find the same as the one before, and reading all insights is not free.
                let now = presence.borrow_and_update().present();
                if now == present {
                    continue;
                }
                present = now;
            }
        }
        if !*leadership.borrow() {
            due = None;
            continue;
        }
        let known = presence.borrow().clone();
        (_, due) = registry.close_abandoned(grace, |instance| known.lost(instance)).await;
        if full {
            registry.finalize_once(Timestamp::now()).await;
            registry.collect_garbage_once(Timestamp::now()).await;
        }
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_those_of_kuma_unless_configured() {
        assert_eq!(timing(&Hds::default()), Timing::default());
        let negative = Hds { interval: GoDuration::from_secs(-1), ..Hds::default() };
        assert_eq!(timing(&negative).report, Duration::ZERO);
    }
}
