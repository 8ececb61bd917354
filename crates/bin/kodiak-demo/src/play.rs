//! A scenario while it runs: the steps that were taken, and the responses of the last seconds.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use hyper::Uri;
use kodiak_client::{Client, ResourceId};
use kodiak_kinds::kinds;
use serde_json::{Value, json};

use super::call::{Caller, Connection};
use super::guide::{Done, Guide};
use super::resources::MESH;
use super::scenario::{Action, Scenario, Step, resources};
use super::spans::Collector;
use super::view::Results;

/// The table shows the responses of this many seconds.
const SHOWN_SECONDS: usize = 5;

pub(super) struct Play {
    scenario: &'static Scenario,
    /// Number of steps that were taken.
    taken: usize,
    collector: Collector,
    /// Of the watched call, once per second; the oldest first.
    seconds: VecDeque<Seen>,
}

/// Totals of the watched call.
#[derive(Debug, Clone, Default)]
struct Seen {
    statuses: BTreeMap<u16, u64>,
    answered_by: BTreeMap<String, u64>,
}

/// A step that was taken, for people.
pub(super) struct Taken {
    pub(super) number: usize,
    pub(super) of: usize,
    pub(super) title: &'static str,
    pub(super) shown: ShownStep,
}

pub(super) enum ShownStep {
    /// Resources that were applied.
    Applied(String),
    /// Commands of the guide that were run.
    Ran(Done),
    Nothing,
}

impl Play {
    pub(super) async fn start(scenario: &'static Scenario) -> anyhow::Result<Self> {
        Ok(Self { scenario, taken: 0, collector: Collector::start().await?, seconds: VecDeque::new() })
    }

    /// Takes the next step, if there is one. `application` finds the address of the application of an instance.
    pub(super) async fn next(
        &mut self,
        api: &Client,
        caller: &Caller,
        application: impl Fn(&str) -> Option<std::net::SocketAddr>,
        guide: Option<&Guide>,
    ) -> anyhow::Result<Option<Taken>> {
        let Some(Step { title, action }) = self.scenario.steps.get(self.taken) else { return Ok(None) };
        self.taken += 1;
        let shown = match action {
            Action::Apply(text) => {
                let (text, documents) = resources(text, &self.collector.address.to_string());
                for document in documents {
                    apply(api, &document).await?;
                }
                ShownStep::Applied(text)
            }
            Action::Health { instance, passes } => {
                let address = application(instance).ok_or_else(|| anyhow::anyhow!("no instance {instance}"))?;
                let path = if *passes { "pass" } else { "fail" };
                let uri: Uri = format!("http://{address}/health/{path}").parse()?;
                caller.get(uri, Connection::Fresh).await.map_err(anyhow::Error::msg)?;
                ShownStep::Nothing
            }
            Action::Guide(section) => {
                let guide = guide.ok_or_else(|| anyhow::anyhow!("the mesh is not that of the guide"))?;
                ShownStep::Ran(guide.run(section).await?)
            }
        };
        Ok(Some(Taken { number: self.taken, of: self.scenario.steps.len(), title, shown }))
    }

    /// Adds the totals of the watched call after another second.
    pub(super) fn second(&mut self, results: &Results) {
        let Some(watched) = results.of(&self.scenario.watched) else { return };
        let seen = Seen { statuses: watched.statuses.clone(), answered_by: watched.answered_by.clone() };
        self.seconds.push_back(seen);
        if self.seconds.len() > SHOWN_SECONDS + 1 {
            self.seconds.pop_front();
        }
    }

    pub(super) fn text(&self) -> String {
        let Scenario { name, watched, steps, .. } = self.scenario;
        let title = self.title().unwrap_or("before the first step");
        let mut text = format!("Scenario {name}, step {} of {}: {title}", self.taken, steps.len());
        let Seen { statuses, answered_by } = self.recent();
        let _ = write!(
            text,
            "\n{} → {} in the last {SHOWN_SECONDS} s: {}; answered by {}",
            watched.from,
            watched.to,
            shares(&statuses),
            shares(&answered_by)
        );
        if let Some(trace) = self.collector.longest() {
            let _ = write!(
                text,
                "\nTrace {}: {}, {} spans, {:.1} ms; {} spans in all",
                trace.id,
                trace.services.join(" → "),
                trace.spans,
                trace.milliseconds,
                self.collector.spans()
            );
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let Seen { statuses, answered_by } = self.recent();
        json!({
            "name": self.scenario.name,
            "step": self.taken,
            "steps": self.scenario.steps.len(),
            "title": self.title(),
            "statuses": statuses,
            "answered_by": answered_by,
            "spans": self.collector.spans(),
            "trace": self.collector.longest(),
        })
    }

    fn title(&self) -> Option<&'static str> {
        self.scenario.steps.get(self.taken.checked_sub(1)?).map(|step| step.title)
    }

    fn recent(&self) -> Seen {
        let (Some(first), Some(last)) = (self.seconds.front(), self.seconds.back()) else { return Seen::default() };
        Seen {
            statuses: difference(&first.statuses, &last.statuses),
            answered_by: difference(&first.answered_by, &last.answered_by),
        }
    }
}

async fn apply(api: &Client, document: &Value) -> anyhow::Result<()> {
    let text = |field: &str| document[field].as_str().unwrap_or_default();
    let kind = kinds().by_name(text("type")).expect("tests check the kinds of all scenarios");
    let id = ResourceId { kind, mesh: MESH, name: text("name") };
    api.put(id, document.to_string().into()).await?;
    Ok(())
}

fn difference<K: Ord + Clone>(before: &BTreeMap<K, u64>, after: &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    let more =
        |(key, count): (&K, &u64)| (key.clone(), count - before.get(key).copied().unwrap_or_default().min(*count));
    after.iter().map(more).filter(|(_, count)| *count > 0).collect()
}

/// `200 80 %, 429 20 %`
fn shares<K: std::fmt::Display>(counts: &BTreeMap<K, u64>) -> String {
    let all: u64 = counts.values().sum();
    let share = |(key, count): (&K, &u64)| format!("{key} {} %", (count * 100 + all / 2) / all.max(1));
    if counts.is_empty() { "-".to_owned() } else { counts.iter().map(share).collect::<Vec<_>>().join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_responses_of_the_last_seconds_count() {
        let before = BTreeMap::from([(200, 10), (429, 5)]);
        let after = BTreeMap::from([(200, 10), (429, 8), (503, 1)]);
        let recent = difference(&before, &after);
        assert_eq!(recent, BTreeMap::from([(429, 3), (503, 1)]));
        assert_eq!(shares(&recent), "429 75 %, 503 25 %");
        assert_eq!(shares::<u16>(&BTreeMap::new()), "-");
    }
}
