//! Metrics in the messages of OpenTelemetry: the few that are needed, written by hand from its protocol.
//!
//! Names and labels stay those of Prometheus, so that queries do not depend on the way of a metric.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::exposition::{Family, MetricType, Sample, unescaped};
use super::scrape::Source;

/// Collectors accept 4 MiB by default.
const LARGEST_REQUEST: usize = 2 << 20;
/// Points in one metric of a request.
const MOST_POINTS: usize = 1000;
/// Totals since the start.
const CUMULATIVE: i32 = 2;
/// Scope of metrics that are not of an application.
const SCOPE: &str = "kodiak-dp";

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ExportMetricsServiceRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
}

/// Only strings are written.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AnyValue {
    #[prost(string, optional, tag = "1")]
    pub(super) string_value: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InstrumentationScope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Metric {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) description: String,
    #[prost(oneof = "Data", tags = "5, 7, 9, 11")]
    pub(super) data: Option<Data>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Data {
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    #[prost(message, tag = "7")]
    Sum(Sum),
    #[prost(message, tag = "9")]
    Histogram(Histogram),
    #[prost(message, tag = "11")]
    Summary(Summary),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Gauge {
    #[prost(message, repeated, tag = "1")]
    pub(super) data_points: Vec<NumberDataPoint>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Sum {
    #[prost(message, repeated, tag = "1")]
    pub(super) data_points: Vec<NumberDataPoint>,
    #[prost(int32, tag = "2")]
    pub(super) aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    pub(super) is_monotonic: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Histogram {
    #[prost(message, repeated, tag = "1")]
    pub(super) data_points: Vec<HistogramDataPoint>,
    #[prost(int32, tag = "2")]
    pub(super) aggregation_temporality: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Summary {
    #[prost(message, repeated, tag = "1")]
    pub(super) data_points: Vec<SummaryDataPoint>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NumberDataPoint {
    #[prost(fixed64, tag = "2")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    pub(super) time_unix_nano: u64,
    #[prost(double, optional, tag = "4")]
    pub(super) as_double: Option<f64>,
    #[prost(message, repeated, tag = "7")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HistogramDataPoint {
    #[prost(fixed64, tag = "2")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    pub(super) time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    pub(super) count: u64,
    #[prost(double, optional, tag = "5")]
    pub(super) sum: Option<f64>,
    #[prost(fixed64, repeated, tag = "6")]
    pub(super) bucket_counts: Vec<u64>,
    #[prost(double, repeated, tag = "7")]
    pub(super) explicit_bounds: Vec<f64>,
    #[prost(message, repeated, tag = "9")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SummaryDataPoint {
    #[prost(fixed64, tag = "2")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    pub(super) time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    pub(super) count: u64,
    #[prost(double, tag = "5")]
    pub(super) sum: f64,
    #[prost(message, repeated, tag = "6")]
    pub(super) quantile_values: Vec<ValueAtQuantile>,
    #[prost(message, repeated, tag = "7")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ValueAtQuantile {
    #[prost(double, tag = "1")]
    pub(super) quantile: f64,
    #[prost(double, tag = "2")]
    pub(super) value: f64,
}

/// Requests with all metrics, each small enough for a collector.
pub(super) fn requests(
    sources: &[Source],
    labels: &BTreeMap<String, String>,
    started: SystemTime,
    now: SystemTime,
) -> Vec<ExportMetricsServiceRequest> {
    use prost::Message as _;
    let times = Times { started: nanos(started), now: nanos(now) };
    let resource = resource(labels);
    let labels: Vec<KeyValue> = labels.iter().map(|(key, value)| attribute(key, value.clone())).collect();
    let mut requests = Vec::new();
    for Source { application, families } in sources {
        let scope = InstrumentationScope { name: application.clone().unwrap_or_else(|| SCOPE.to_owned()) };
        let (mut batch, mut size) = (Vec::new(), 0);
        let mut send = |batch: &mut Vec<Metric>| {
            let scope_metrics = vec![ScopeMetrics { scope: Some(scope.clone()), metrics: std::mem::take(batch) }];
            let resource_metrics = vec![ResourceMetrics { resource: Some(resource.clone()), scope_metrics }];
            requests.push(ExportMetricsServiceRequest { resource_metrics });
        };
        for metric in families.iter().flat_map(|family| metrics(family, times, &labels)) {
            size += metric.encoded_len();
            if size > LARGEST_REQUEST && !batch.is_empty() {
                send(&mut batch);
                size = metric.encoded_len();
            }
            batch.push(metric);
        }
        if !batch.is_empty() {
            send(&mut batch);
        }
    }
    requests
}

#[derive(Clone, Copy)]
struct Times {
    started: u64,
    now: u64,
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Attributes by the conventions of OpenTelemetry.
fn resource(labels: &BTreeMap<String, String>) -> Resource {
    let known = [("service", "service.name"), ("dataplane", "service.instance.id"), ("mesh", "service.namespace")];
    let attributes =
        known.into_iter().filter_map(|(label, key)| Some(attribute(key, labels.get(label)?.clone()))).collect();
    Resource { attributes }
}

fn attribute(key: &str, value: String) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { string_value: Some(value) }) }
}

/// A family as one metric, or several if it has many points.
fn metrics(family: &Family, times: Times, labels: &[KeyValue]) -> Vec<Metric> {
    let metric = |data| Metric {
        name: family.name.clone(),
        description: family.help.clone().unwrap_or_default(),
        data: Some(data),
    };
    let numbers = || family.samples.chunks(MOST_POINTS).map(|samples| numbers(samples, times, labels));
    match family.metric_type {
        MetricType::Gauge | MetricType::Untyped => {
            numbers().map(|data_points| metric(Data::Gauge(Gauge { data_points }))).collect()
        }
        MetricType::Counter => {
            let sum = |data_points| Sum { data_points, aggregation_temporality: CUMULATIVE, is_monotonic: true };
            numbers().map(|data_points| metric(Data::Sum(sum(data_points)))).collect()
        }
        MetricType::Histogram => {
            let points: Vec<_> = groups(family, "le").into_values().map(|each| each.histogram(times, labels)).collect();
            let histogram = |points: &[HistogramDataPoint]| Histogram {
                data_points: points.to_vec(),
                aggregation_temporality: CUMULATIVE,
            };
            points.chunks(MOST_POINTS).map(|points| metric(Data::Histogram(histogram(points)))).collect()
        }
        MetricType::Summary => {
            let groups = groups(family, "quantile").into_values();
            let points: Vec<_> = groups.map(|each| each.summary(times, labels)).collect();
            let summary = |points: &[SummaryDataPoint]| Summary { data_points: points.to_vec() };
            points.chunks(MOST_POINTS).map(|points| metric(Data::Summary(summary(points)))).collect()
        }
    }
}

fn numbers(samples: &[Sample], times: Times, labels: &[KeyValue]) -> Vec<NumberDataPoint> {
    let point = |sample: &Sample| NumberDataPoint {
        start_time_unix_nano: times.started,
        time_unix_nano: times.now,
        as_double: Some(sample.value),
        attributes: attributes(&sample.labels, labels),
    };
    samples.iter().map(point).collect()
}

/// Labels of the sample override those of the proxy.
fn attributes<'a>(own: impl IntoIterator<Item = &'a (String, String)>, labels: &[KeyValue]) -> Vec<KeyValue> {
    let mut all: Vec<_> = own.into_iter().map(|(key, value)| attribute(key, unescaped(value))).collect();
    let more: Vec<_> = labels.iter().filter(|label| all.iter().all(|own| own.key != label.key)).cloned().collect();
    all.extend(more);
    all
}

/// Samples of a histogram or summary with the same labels, beside the one for a bucket or quantile.
#[derive(Default)]
struct Group<'a> {
    labels: Vec<&'a (String, String)>,
    /// Bound or quantile, and value.
    parts: Vec<(f64, f64)>,
    sum: f64,
    count: f64,
}

fn groups<'a>(family: &'a Family, part: &str) -> BTreeMap<Vec<&'a (String, String)>, Group<'a>> {
    let mut groups: BTreeMap<Vec<&(String, String)>, Group<'a>> = BTreeMap::new();
    for sample in &family.samples {
        let (own, labels): (Vec<_>, Vec<_>) = sample.labels.iter().partition(|(key, _)| key == part);
        let group = groups.entry(labels.clone()).or_default();
        group.labels = labels;
        match (own.first().and_then(|(_, bound)| bound.parse().ok()), sample.name.strip_prefix(&family.name)) {
            (Some(bound), _) => group.parts.push((bound, sample.value)),
            (None, Some("_sum")) => group.sum = sample.value,
            (None, Some("_count")) => group.count = sample.value,
            (None, _) => (),
        }
    }
    groups
}

impl Group<'_> {
    /// Buckets of Prometheus include those below them; these do not.
    fn histogram(mut self, times: Times, labels: &[KeyValue]) -> HistogramDataPoint {
        self.parts.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.parts.retain(|(bound, _)| bound.is_finite());
        let totals: Vec<u64> = self.parts.iter().map(|(_, value)| whole(*value)).chain([whole(self.count)]).collect();
        let before = std::iter::once(0).chain(totals.iter().copied());
        let bucket_counts = totals.iter().zip(before).map(|(total, before)| total.saturating_sub(before)).collect();
        HistogramDataPoint {
            start_time_unix_nano: times.started,
            time_unix_nano: times.now,
            count: whole(self.count),
            sum: Some(self.sum),
            bucket_counts,
            explicit_bounds: self.parts.iter().map(|(bound, _)| *bound).collect(),
            attributes: attributes(self.labels.iter().copied(), labels),
        }
    }

    fn summary(self, times: Times, labels: &[KeyValue]) -> SummaryDataPoint {
        let quantile = |(quantile, value): &(f64, f64)| ValueAtQuantile { quantile: *quantile, value: *value };
        SummaryDataPoint {
            start_time_unix_nano: times.started,
            time_unix_nano: times.now,
            count: whole(self.count),
            sum: self.sum,
            quantile_values: self.parts.iter().map(quantile).collect(),
            attributes: attributes(self.labels.iter().copied(), labels),
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are not negative, and saturate")]
fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::super::parse::{TextFormat, parse};
    use super::*;

    fn metrics_of(text: &str) -> Vec<Metric> {
        let families = parse(text, TextFormat::Prometheus).families;
        let labels = BTreeMap::from([("mesh".to_owned(), "default".to_owned())]);
        let sources = [Source { application: None, families }];
        let now = SystemTime::UNIX_EPOCH;
        let requests = requests(&sources, &labels, now, now);
        requests
            .into_iter()
            .flat_map(|mut each| each.resource_metrics.remove(0).scope_metrics.remove(0).metrics)
            .collect()
    }

    #[test]
    fn counter_is_a_cumulative_sum_and_gauge_a_gauge() {
        let metrics = metrics_of("# TYPE a counter\na{b=\"c\\\"\"} 2\n# TYPE d gauge\nd 3\n");
        let Some(Data::Sum(sum)) = &metrics[0].data else { panic!("{metrics:?}") };
        assert!(sum.is_monotonic && sum.aggregation_temporality == CUMULATIVE);
        assert_eq!(sum.data_points[0].as_double, Some(2.0));
        let expected = [attribute("b", "c\"".to_owned()), attribute("mesh", "default".to_owned())];
        assert_eq!(sum.data_points[0].attributes, expected);
        assert!(matches!(&metrics[1].data, Some(Data::Gauge(gauge)) if gauge.data_points[0].as_double == Some(3.0)));
    }

    #[test]
    fn buckets_of_a_histogram_exclude_those_below() {
        let text = "# TYPE t histogram\nt_bucket{le=\"1\"} 2\nt_bucket{le=\"5\"} 5\nt_bucket{le=\"+Inf\"} 6\nt_sum 20\nt_count 6\n";
        let metrics = metrics_of(text);
        let Some(Data::Histogram(histogram)) = &metrics[0].data else { panic!("{metrics:?}") };
        let point = &histogram.data_points[0];
        assert_eq!((point.count, point.sum), (6, Some(20.0)));
        assert_eq!((&*point.bucket_counts, &*point.explicit_bounds), (&[2, 3, 1][..], &[1.0, 5.0][..]));
    }

    #[test]
    fn summary_has_its_quantiles() {
        let metrics = metrics_of("# TYPE s summary\ns{quantile=\"0.5\"} 7\ns_sum 14\ns_count 2\n");
        let Some(Data::Summary(summary)) = &metrics[0].data else { panic!("{metrics:?}") };
        let quantiles = &summary.data_points[0].quantile_values;
        assert_eq!((quantiles[0].quantile, quantiles[0].value), (0.5, 7.0));
        assert_eq!((summary.data_points[0].count, summary.data_points[0].sum), (2, 14.0));
    }

    #[test]
    fn requests_are_small_enough_for_collectors() {
        let line = |n: usize| format!("a{{long=\"{}\",n=\"{n}\"}} 1\n", "x".repeat(100));
        let text: String = (0..50_000).map(line).collect();
        let families = parse(&text, TextFormat::Prometheus).families;
        let now = SystemTime::UNIX_EPOCH;
        let requests = requests(&[Source { application: None, families }], &BTreeMap::new(), now, now);
        assert!(requests.len() > 2 && requests.iter().all(|request| request.encoded_len() < 3 << 20));
    }
}
