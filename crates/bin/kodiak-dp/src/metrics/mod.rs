//! Metrics of Envoy and of applications: one endpoint for Prometheus, and pushes to OpenTelemetry collectors.
//!
//! ```text
//!  control plane --(through Envoy)--> settings
//!  Envoy's admin interface, applications --> scrape --> exposition: parse, select, merge --> server: text for Prometheus
//!                                                                                        --> otlp, push: collectors
//! ```
//!
//! **Invariant:** an application that fails, or sends invalid lines, costs only its own series.
//! **Invariant:** every scrape has limits of time and size.

mod exposition;
mod merge;
mod otlp;
mod parse;
mod profiles;
mod push;
mod scrape;
mod server;
mod settings;

pub(crate) use server::MetricsServer;
