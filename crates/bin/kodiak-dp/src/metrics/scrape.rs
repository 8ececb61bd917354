//! Scrapes Envoy and the applications, all at once, and merges their metrics.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, StatusCode, Uri};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::exposition::{Family, MetricType, Sample};
use super::merge::Merged;
use super::parse::{Parsed, TextFormat, parse};
use super::settings::{Application, MetricsSettings, Sidecar};
use crate::socket::{self, Answer, SocketError};

/// Of an application. Prometheus waits for 10 seconds by default.
const APPLICATION_TIME: Duration = Duration::from_secs(5);
const LARGEST_OF_APPLICATION: usize = 16 << 20;
/// Envoy in a large mesh has many clusters.
const LARGEST_OF_ENVOY: usize = 64 << 20;
/// The older format is preferred, because it is the one that is served.
const ACCEPTED: HeaderValue =
    HeaderValue::from_static("text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1");

/// Metrics of one source.
#[derive(Debug)]
pub(super) struct Source {
    /// `None` for Envoy.
    pub(super) application: Option<String>,
    pub(super) families: Vec<Family>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ScrapeError {
    #[error("invalid address or path")]
    Address,
    #[error("cannot connect")]
    Connect(#[source] std::io::Error),
    #[error(transparent)]
    Exchange(#[from] SocketError),
    #[error("no response within {APPLICATION_TIME:?}")]
    TimedOut,
    #[error("the response has status {0}")]
    Status(StatusCode),
}

/// Scrapes, and counts failed scrapes since the start.
#[derive(Debug)]
pub(super) struct Scraper {
    admin: PathBuf,
    failures: Mutex<BTreeMap<String, u32>>,
}

impl Scraper {
    pub(super) fn new(admin: PathBuf) -> Self {
        Self { admin, failures: Mutex::default() }
    }

    /// Metrics of all sources, for Prometheus.
    pub(super) async fn merged(&self, settings: &MetricsSettings) -> Result<Merged, ScrapeError> {
        let mut merged = Merged::default();
        for Source { application, families } in self.sources(settings).await? {
            let dropped = merged.add(families);
            if let Some(application) = application.filter(|_| dropped > 0) {
                tracing::debug!(application, dropped, "dropping series that contradict others");
            }
        }
        Ok(merged)
    }

    /// Envoy first, then the applications, and at last metrics of these scrapes. An application that fails has none.
    pub(super) async fn sources(&self, settings: &MetricsSettings) -> Result<Vec<Source>, ScrapeError> {
        let mut scrapes = JoinSet::new();
        for (position, application) in settings.applications.iter().cloned().enumerate() {
            scrapes.spawn(async move {
                let result = tokio::time::timeout(APPLICATION_TIME, application_metrics(&application)).await;
                (position, result.unwrap_or(Err(ScrapeError::TimedOut)))
            });
        }
        let envoy = self.envoy_metrics(&settings.sidecar).await?;
        let mut sources = vec![Source { application: None, families: envoy }];
        let mut results = scrapes.join_all().await;
        results.sort_by_key(|(position, _)| *position);
        let mut own = OwnMetrics::default();
        for (application, (_, result)) in settings.applications.iter().zip(results) {
            let label = application.label();
            let (up, invalid) = match result {
                Ok(Parsed { families, invalid }) => {
                    let families = labelled(families, application.name.as_deref());
                    sources.push(Source { application: Some(label.clone()), families });
                    (true, invalid)
                }
                Err(error) => {
                    tracing::debug!(application = label, error = &error as &dyn std::error::Error, "scrape failed");
                    (false, 0)
                }
            };
            own.add(&label, up, invalid, self.count(&label, up));
        }
        sources.push(Source { application: None, families: own.families() });
        Ok(sources)
    }

    async fn envoy_metrics(&self, sidecar: &Sidecar) -> Result<Vec<Family>, ScrapeError> {
        let path = if sidecar.include_unused { "/stats/prometheus" } else { "/stats/prometheus?usedonly" };
        let answer = socket::ask_for_at_most(LARGEST_OF_ENVOY, &self.admin, Method::GET, path, &[]).await?;
        let mut families = parsed(&answer)?.families;
        let selection = sidecar.profiles.selection();
        families.retain(|family| selection.has(&family.name));
        Ok(families)
    }

    /// Failures of this application so far, with this scrape.
    fn count(&self, application: &str, up: bool) -> u32 {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(application.to_owned()).or_default();
        *count = count.saturating_add(u32::from(!up));
        *count
    }
}

async fn application_metrics(application: &Application) -> Result<Parsed, ScrapeError> {
    let path: Uri = application.path.parse().map_err(|_| ScrapeError::Address)?;
    let host = HeaderValue::try_from(application.authority()).map_err(|_| ScrapeError::Address)?;
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.uri_mut() = path;
    let headers = request.headers_mut();
    headers.insert(HOST, host);
    headers.insert(ACCEPT, ACCEPTED);
    headers.insert(USER_AGENT, HeaderValue::from_static("kodiak-dp"));
    let address = (application.address.as_str(), application.port);
    let stream = TcpStream::connect(address).await.map_err(ScrapeError::Connect)?;
    parsed(&socket::exchange(stream, request, LARGEST_OF_APPLICATION).await?)
}

fn parsed(answer: &Answer) -> Result<Parsed, ScrapeError> {
    if answer.status != StatusCode::OK {
        return Err(ScrapeError::Status(answer.status));
    }
    let content_type = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    Ok(parse(&String::from_utf8_lossy(&answer.body), TextFormat::of(content_type)))
}

/// Several applications may have series of the same name, so their names become labels.
fn labelled(mut families: Vec<Family>, application: Option<&str>) -> Vec<Family> {
    if let Some(name) = application {
        families.iter_mut().flat_map(|family| &mut family.samples).for_each(|sample| {
            sample.add_label("application", name);
        });
    }
    families
}

/// Metrics about the scrapes of applications.
#[derive(Default)]
struct OwnMetrics {
    up: Vec<Sample>,
    failures: Vec<Sample>,
    invalid: Vec<Sample>,
}

impl OwnMetrics {
    fn add(&mut self, application: &str, up: bool, invalid: usize, failures: u32) {
        let sample = |name: &str, value| {
            let mut sample = Sample { name: name.to_owned(), labels: Vec::new(), value, timestamp: None };
            sample.add_label("application", application);
            sample
        };
        self.up.push(sample(UP, f64::from(u8::from(up))));
        self.failures.push(sample(FAILURES, f64::from(failures)));
        self.invalid.push(sample(INVALID, f64::from(u32::try_from(invalid).unwrap_or(u32::MAX))));
    }

    fn families(self) -> Vec<Family> {
        let family = |name: &str, metric_type, help: &str, samples| Family {
            name: name.to_owned(),
            metric_type,
            help: Some(help.to_owned()),
            samples,
        };
        let all = [
            family(UP, MetricType::Gauge, "Whether the last scrape of the application succeeded.", self.up),
            family(FAILURES, MetricType::Counter, "Failed scrapes of the application.", self.failures),
            family(INVALID, MetricType::Gauge, "Invalid lines in the last scrape of the application.", self.invalid),
        ];
        all.into_iter().filter(|family| !family.samples.is_empty()).collect()
    }
}

const UP: &str = "kodiak_dp_application_up";
const FAILURES: &str = "kodiak_dp_application_scrape_failures_total";
const INVALID: &str = "kodiak_dp_application_invalid_lines";
