//! Recorded HTTP calls.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::{
    pattern,
    report::Report,
    server::{Reply, Server},
};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recorded {
    pub(crate) name: String,
    /// Method and path.
    pub(crate) request: String,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// JSON, or a text that is sent as it is.
    pub(crate) body: Option<Value>,
    /// Answer of kuma-cp 2.14.3.
    pub(crate) answer: Answer,
    /// Answer of Kodiak where it differs on purpose.
    pub(crate) differs: Option<Difference>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Difference {
    pub(crate) reason: String,
    pub(crate) answer: Answer,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    #[serde(default = "ok")]
    pub(crate) status: u16,
    /// Start of `Content-Type`.
    #[serde(rename = "type")]
    pub(crate) content_type: Option<String>,
    pub(crate) body: Option<Value>,
    /// Text, for answers that are not JSON.
    pub(crate) text: Option<String>,
}

fn ok() -> u16 {
    200
}

pub(crate) async fn run(calls: &[Recorded], server: &Server, filter: &str, report: &mut Report) -> anyhow::Result<()> {
    for call in calls {
        let reply = server.request(&call.request, &call.headers, call.body.as_ref()).await?;
        if !call.name.contains(filter) {
            continue;
        }
        let expected = call.differs.as_ref().map_or(&call.answer, |differs| &differs.answer);
        report.add("call", &format!("{} ({})", call.name, call.request), expected.differences(&reply));
        if call.differs.is_some() && call.answer.differences(&reply).is_empty() {
            let stale = "answers as Kuma does: remove `differs`".to_owned();
            report.add("difference", &call.name, vec![stale]);
        }
    }
    Ok(())
}

impl Answer {
    pub(crate) fn differences(&self, reply: &Reply) -> Vec<String> {
        let Self { status, content_type, body, text } = self;
        let mut differences = Vec::new();
        if reply.status != *status {
            differences.push(format!("status: expected {status}, found {}: {}", reply.status, reply.text.trim()));
        }
        if let Some(expected) =
            content_type.as_ref().filter(|expected| !reply.content_type.starts_with(expected.as_str()))
        {
            differences.push(format!("content-type: expected {expected}, found {}", reply.content_type));
        }
        if let Some(expected) = body {
            match serde_json::from_str(&reply.text) {
                Ok(found) => differences.extend(pattern::compare(expected, &found)),
                Err(error) => differences.push(format!("body: {error}: {}", reply.text.trim())),
            }
        }
        if let Some(expected) = text {
            let (expected, found) = (Value::from(expected.clone()), Value::from(reply.text.trim_end()));
            differences.extend(pattern::compare(&expected, &found));
        }
        differences
    }
}
