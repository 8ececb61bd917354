//! ProxySettings of the proxy registry, from the configuration.

use std::{sync::Arc, time::Duration};

use kodiak_metrics::Metrics;
use kodiak_model::GoDuration;
use kodiak_proxies::{Authn, ProxySettings};
use kodiak_xds::health::Timing;

use crate::{
    certificate::Certificate,
    config::{Config, DpProxyAuthnType, Hds, HdsCheck},
};

pub(crate) fn settings(
    config: &Config,
    instance_id: &str,
    certificate: &Certificate,
    port: u16,
    metrics: &Metrics,
) -> ProxySettings {
    let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
    let xds = &config.xds_server;
    let xds_host = &config.bootstrap_server.params.xds_host;
    ProxySettings {
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
        check_ca: Arc::new(|pem| match kodiak_crypto::certificates(pem.as_bytes()) {
            Ok(certificates) if !certificates.is_empty() => Ok(()),
            Ok(_) => Err("the file has no certificate".to_owned()),
            Err(error) => Err(error.to_string()),
        }),
        health: config.dp_server.hds.enabled.then(|| timing(&config.dp_server.hds)),
        traffic: config.traffic.settings(),
        observer: Some(Arc::new(metrics.xds.clone())),
        port_metrics: Some(metrics.proxy_port.clone()),
        ..ProxySettings::new(instance_id)
    }
}

/// Negative durations become zero.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_check_defaults_equal_those_of_kuma() {
        assert_eq!(timing(&Hds::default()), Timing::default());
        let negative = Hds { interval: GoDuration::from_secs(-1), ..Hds::default() };
        assert_eq!(timing(&negative).report, Duration::ZERO);
    }
}
