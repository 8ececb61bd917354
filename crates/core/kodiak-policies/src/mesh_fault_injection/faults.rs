//! Converts faults to configurations of Envoy's fault filter.
//!
//! Envoy rejects the whole listener for a value outside its range. Validation accepts some of those, as in Kuma, so such
//! a part of a fault is left out.

use kodiak_envoy::envoy::extensions::filters::common::fault::v3::fault_delay::FaultDelaySecifier;
use kodiak_envoy::envoy::extensions::filters::common::fault::v3::fault_rate_limit::{FixedLimit, LimitType};
use kodiak_envoy::envoy::extensions::filters::common::fault::v3::{FaultDelay, FaultRateLimit};
use kodiak_envoy::envoy::extensions::filters::http::fault::v3::fault_abort::ErrorType;
use kodiak_envoy::envoy::extensions::filters::http::fault::v3::{FaultAbort, HttpFault};

use super::{Abort, Delay, Fault, ResponseBandwidth};
use crate::convert::duration;
use crate::percentage;

/// `None` for a fault that does nothing.
pub(super) fn http_fault(Fault { abort, delay, response_bandwidth }: &Fault) -> Option<HttpFault> {
    let fault = HttpFault {
        abort: abort.as_ref().and_then(fault_abort),
        delay: delay.as_ref().and_then(fault_delay),
        response_rate_limit: response_bandwidth.as_ref().and_then(fault_rate_limit),
        ..HttpFault::default()
    };
    (fault != HttpFault::default()).then_some(fault)
}

/// Envoy responds with final statuses only.
fn fault_abort(Abort { http_status, percentage }: &Abort) -> Option<FaultAbort> {
    let status = u32::try_from(*http_status).ok().filter(|status| (200..600).contains(status))?;
    Some(FaultAbort {
        percentage: Some(percentage::fraction(percentage.as_ref()?)),
        error_type: Some(ErrorType::HttpStatus(status)),
        ..FaultAbort::default()
    })
}

fn fault_delay(Delay { value, percentage }: &Delay) -> Option<FaultDelay> {
    let value = value.and_then(duration).filter(|value| value.seconds > 0 || value.nanos > 0)?;
    Some(FaultDelay {
        percentage: Some(percentage::fraction(percentage.as_ref()?)),
        fault_delay_secifier: Some(FaultDelaySecifier::FixedDelay(value)),
    })
}

fn fault_rate_limit(ResponseBandwidth { limit, percentage }: &ResponseBandwidth) -> Option<FaultRateLimit> {
    Some(FaultRateLimit {
        percentage: Some(percentage::fraction(percentage.as_ref()?)),
        limit_type: Some(LimitType::FixedLimit(FixedLimit { limit_kbps: kibibytes_per_second(limit)? })),
    })
}

/// Envoy's `limit_kbps` is in KiB/s, and at least 1. `None` for zero and for text that validation rejects.
fn kibibytes_per_second(limit: &str) -> Option<u64> {
    let unit = limit.trim_start_matches(|c: char| c.is_ascii_digit());
    let kilobits: u128 = match unit.trim_start() {
        "kbps" => 1,
        "Mbps" => 1_000,
        "Gbps" => 1_000_000,
        _ => return None,
    };
    let number: u64 = limit.strip_suffix(unit)?.parse().ok().filter(|number| *number > 0)?;
    let kibibytes = (u128::from(number) * kilobits * 125 + 512) / 1024;
    // Far above any network, and Envoy multiplies it further.
    Some(u64::from(u32::try_from(kibibytes).unwrap_or(u32::MAX)).max(1))
}

#[cfg(test)]
mod tests {
    use super::{http_fault, kibibytes_per_second};
    use crate::samples::{check, value};

    fn fault(text: &str) -> Option<super::HttpFault> {
        http_fault(&serde_json::from_value(value(text)).unwrap())
    }

    #[test]
    fn each_part_of_a_fault_has_its_percentage() {
        let all = "
            abort: {httpStatus: 500, percentage: '2.5'}
            delay: {value: 1500ms, percentage: 5}
            responseBandwidth: {limit: 50 Mbps, percentage: '0.001'}
        ";
        check(
            &fault(all).unwrap(),
            "
            abort: {http_status: 500, percentage: {numerator: 250, denominator: TEN_THOUSAND}}
            delay: {fixed_delay: 1.5s, percentage: {numerator: 5}}
            response_rate_limit: {fixed_limit: {limit_kbps: 6104}, percentage: {numerator: 10, denominator: MILLION}}
            ",
        );
    }

    #[test]
    fn parts_that_envoy_would_reject_are_left_out() {
        for refused in [
            "abort: {httpStatus: 100, percentage: 50}",
            "abort: {httpStatus: 199, percentage: 50}",
            "abort: {httpStatus: 600, percentage: 50}",
            "abort: {httpStatus: -1, percentage: 50}",
            "delay: {value: 0s, percentage: 50}",
            "delay: {percentage: 50}",
            "responseBandwidth: {limit: 0 kbps, percentage: 50}",
            "responseBandwidth: {limit: Mbps, percentage: 50}",
            "{}",
        ] {
            assert_eq!(fault(refused), None, "{refused}");
        }
        let partly = "{abort: {httpStatus: 101, percentage: 50}, delay: {value: 1ns, percentage: 1}}";
        check(&fault(partly).unwrap(), "delay: {fixed_delay: 0.000000001s, percentage: {numerator: 1}}");
    }

    #[test]
    fn bandwidth_is_converted_from_bits_to_kibibytes() {
        for (limit, expected) in [
            ("1kbps", Some(1)),
            ("8 kbps", Some(1)),
            ("1024kbps", Some(125)),
            ("1Mbps", Some(122)),
            ("1 Gbps", Some(122_070)),
            ("18446744073709551615 Gbps", Some(u64::from(u32::MAX))),
            ("99999999999999999999 Gbps", None),
            ("1bps", None),
        ] {
            assert_eq!(kibibytes_per_second(limit), expected, "{limit}");
        }
    }
}
