//! Retry policies of routes, and connect attempts of TCP proxies.

mod retry_on;

use kodiak_envoy::envoy::config::core::v3::Metadata;
use kodiak_envoy::envoy::config::route::v3::RetryPolicy;
use kodiak_envoy::envoy::config::route::v3::retry_policy::{
    RateLimitedRetryBackOff, ResetHeader, ResetHeaderFormat, RetryBackOff, RetryHostPredicate, RetryPriority,
    retry_host_predicate, retry_priority,
};
use kodiak_envoy::envoy::extensions::retry::host::omit_host_metadata::v3::OmitHostMetadataConfig;
use kodiak_envoy::envoy::extensions::retry::host::previous_hosts::v3::PreviousHostsPredicate;
use kodiak_envoy::envoy::extensions::retry::priority::previous_priorities::v3::PreviousPrioritiesConfig;
use kodiak_envoy::google::protobuf::{Struct, Value, value::Kind};
use kodiak_envoy::{TypeUrl, any};
use kodiak_model::{Choice, GoDuration, Protocol};

use super::{BackOff, Conf, Grpc, Http, Predicate, PredicateType, RateLimitFormat, RateLimitedBackOff};
use crate::Confs;
use crate::convert::{actions, duration, set};
use crate::target::{Carrier, Outbound, Tags};

pub(super) fn outbound(confs: &Confs, outbound: &mut Outbound<'_>) {
    let protocol = outbound.protocol;
    match &mut outbound.carrier {
        Carrier::Http(http) => {
            for (name, action) in actions(&mut http.routes) {
                if let Some(conf) = confs.of_route(name) {
                    action.retry_policy = retry_policy(&conf.read(), protocol);
                }
            }
        }
        Carrier::Tcp(tcp) => {
            let Some(conf) = &confs.whole else { return };
            let attempts = conf.read::<Conf>().tcp.and_then(|tcp| tcp.max_connect_attempt);
            set(&mut tcp.proxy.max_connect_attempts, attempts.filter(|attempts| *attempts > 0));
        }
    }
}

/// `http` applies to HTTP/1 only, as in Kuma: otherwise a mesh-wide default would start to retry HTTP/2 requests.
fn retry_policy(conf: &Conf, protocol: Protocol) -> Option<RetryPolicy> {
    match protocol {
        Protocol::Http => http(conf.http.as_ref()?),
        Protocol::Grpc => grpc(conf.grpc.as_ref()?),
        Protocol::Http2 | Protocol::Kafka | Protocol::Mysql | Protocol::Tcp | Protocol::Tls => None,
    }
}

fn http(http: &Http) -> Option<RetryPolicy> {
    let Http {
        num_retries,
        per_try_timeout,
        back_off,
        rate_limited_back_off,
        retry_on,
        retriable_response_headers,
        retriable_request_headers,
        host_selection,
        host_selection_max_attempts,
    } = http;
    let policy = retries(*num_retries, *per_try_timeout, back_off.as_ref(), rate_limited_back_off.as_ref())?;
    let selection = host_selection.as_deref().unwrap_or_default();
    let policy = RetryPolicy {
        retry_host_predicate: selection.iter().filter_map(host_predicate).collect(),
        retry_priority: selection.iter().find_map(priority),
        host_selection_retry_max_attempts: host_selection_max_attempts.unwrap_or_default(),
        ..policy
    };
    Some(retry_on::http(
        policy,
        retry_on.as_deref().unwrap_or_default(),
        retriable_response_headers.as_deref().unwrap_or_default(),
        retriable_request_headers.as_deref().unwrap_or_default(),
    ))
}

fn grpc(grpc: &Grpc) -> Option<RetryPolicy> {
    let Grpc { num_retries, per_try_timeout, back_off, rate_limited_back_off, retry_on } = grpc;
    let policy = retries(*num_retries, *per_try_timeout, back_off.as_ref(), rate_limited_back_off.as_ref())?;
    Some(RetryPolicy { retry_on: retry_on::grpc(retry_on.as_deref().unwrap_or_default()), ..policy })
}

/// The fields that HTTP and gRPC share. `None` when nothing is retried.
fn retries(
    num_retries: Option<u32>,
    per_try_timeout: Option<GoDuration>,
    back_off: Option<&BackOff>,
    rate_limited_back_off: Option<&RateLimitedBackOff>,
) -> Option<RetryPolicy> {
    (num_retries != Some(0)).then(|| RetryPolicy {
        num_retries,
        per_try_timeout: per_try_timeout.and_then(duration),
        retry_back_off: back_off.and_then(retry_back_off),
        rate_limited_retry_back_off: rate_limited_back_off.and_then(rate_limited),
        ..RetryPolicy::default()
    })
}

/// Envoy rejects a maximum interval below the base interval, which merging policies can produce.
fn retry_back_off(BackOff { base_interval, max_interval }: &BackOff) -> Option<RetryBackOff> {
    let base = base_interval.filter(|base| *base > GoDuration::ZERO)?;
    Some(RetryBackOff {
        base_interval: duration(base),
        max_interval: max_interval.and_then(|longest| duration(longest.max(base))),
    })
}

fn rate_limited(written: &RateLimitedBackOff) -> Option<RateLimitedRetryBackOff> {
    let RateLimitedBackOff { reset_headers, max_interval } = written;
    let header = |header: &super::ResetHeader| ResetHeader {
        name: header.name.clone(),
        format: match header.format.as_ref().and_then(Choice::known) {
            Some(RateLimitFormat::UnixTimestamp) => ResetHeaderFormat::UnixTimestamp.into(),
            Some(RateLimitFormat::Seconds) | None => ResetHeaderFormat::Seconds.into(),
        },
    };
    let reset_headers: Vec<_> = reset_headers.iter().flatten().map(header).collect();
    (!reset_headers.is_empty())
        .then(|| RateLimitedRetryBackOff { reset_headers, max_interval: max_interval.and_then(duration) })
}

fn host_predicate(Predicate { predicate, tags, .. }: &Predicate) -> Option<RetryHostPredicate> {
    match predicate.as_ref().and_then(Choice::known)? {
        PredicateType::OmitPreviousHosts => {
            Some(named("envoy.retry_host_predicates.previous_hosts", &PreviousHostsPredicate {}))
        }
        PredicateType::OmitHostsWithTags => {
            let config = OmitHostMetadataConfig { metadata_match: Some(metadata(tags.as_ref()?)) };
            Some(named("envoy.retry_host_predicates.omit_host_metadata", &config))
        }
        PredicateType::OmitPreviousPriorities => None,
    }
}

fn named<M: TypeUrl>(name: &str, config: &M) -> RetryHostPredicate {
    RetryHostPredicate {
        name: name.to_owned(),
        config_type: Some(retry_host_predicate::ConfigType::TypedConfig(any(config))),
    }
}

fn priority(Predicate { predicate, update_frequency, .. }: &Predicate) -> Option<RetryPriority> {
    predicate.as_ref().filter(|one| one.is(PredicateType::OmitPreviousPriorities))?;
    let config = PreviousPrioritiesConfig { update_frequency: update_frequency.unwrap_or(2) };
    Some(RetryPriority {
        name: "envoy.retry_priorities.previous_priorities".to_owned(),
        config_type: Some(retry_priority::ConfigType::TypedConfig(any(&config))),
    })
}

/// Metadata in which endpoints have their tags.
fn metadata(tags: &Tags) -> Metadata {
    let string = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
    let fields = tags.iter().map(|(key, value)| (key.clone(), string(value))).collect();
    Metadata { filter_metadata: [("envoy.lb".to_owned(), Struct { fields })].into(), ..Metadata::default() }
}

#[cfg(test)]
mod tests;
