//! Connections of both proxies to control planes, and what they acknowledged.

use std::sync::Arc;

use kodiak_model::{kinds::dataplane_insight::DataplaneInsight, subscription::Subscription};

use super::{Question, Step, StepName, StepState, serving::Way};

/// Servers that are listed.
const SHOWN: usize = 5;

pub(super) fn proxies(question: &Question<'_>, ways: &[Way]) -> Step {
    let step = StepName::Proxies;
    if question.context.offline {
        return Step::unknown(step, "files do not show connections of proxies");
    }
    let insight = question.world.insight(&question.client.key());
    let client = (&*question.client.name, insight);
    let ready = ways.iter().flat_map(|way| &way.instances).filter(|instance| instance.endpoint.ready);
    let servers = ready.filter_map(|instance| Some((&*instance.proxy.as_ref()?.name, instance.insight.clone())));
    let (mut states, mut details) = (Vec::new(), Vec::new());
    for (name, insight) in std::iter::once(client).chain(servers.take(SHOWN)) {
        let (state, text) = of_proxy(name, insight.as_ref());
        states.push((state, text.clone()));
        details.push(text);
    }
    let (own, _) = &states[0];
    // One working server is enough, but there is one client.
    let servers = &states[1..];
    let is_down = |(state, _): &&(StepState, String)| *state == StepState::Problem;
    let broken = if *own == StepState::Problem {
        Some(&states[0].1)
    } else if !servers.is_empty() && servers.iter().filter(is_down).count() == servers.len() {
        servers.first().map(|(_, text)| text)
    } else {
        None
    };
    match broken {
        Some(text) => Step::problem(step, text.clone()).with(details),
        None if states.iter().any(|(state, _)| *state != StepState::Ok) => {
            Step::unknown(step, "not every proxy has acknowledged all of its configuration").with(details)
        }
        None => Step::ok(step, "both proxies acknowledged their configuration").with(details),
    }
}

fn of_proxy(name: &str, insight: Option<&Arc<DataplaneInsight>>) -> (StepState, String) {
    let Some(insight) = insight else {
        return (StepState::Problem, format!("proxy {name} has never connected"));
    };
    let open = insight.subscriptions.iter().rev().find(|one| one.is_open());
    let Some(open) = open else {
        let since = insight.last_subscription().and_then(|last| last.disconnect_time.clone()).unwrap_or_default();
        return (StepState::Problem, format!("proxy {name} is not connected since {since}"));
    };
    let rejecting = insight.mtls.as_ref().map(|mtls| mtls.rejecting.as_str()).filter(|error| !error.is_empty());
    if let Some(error) = rejecting {
        return (StepState::Problem, format!("proxy {name} rejects its configuration: {error}"));
    }
    let Subscription { status, .. } = open;
    let (sent, acknowledged, rejected) =
        (status.total.responses_sent.0, status.total.responses_acknowledged.0, status.total.responses_rejected.0);
    let last = status.last_update_time.as_deref().map(|time| format!(", last at {time}")).unwrap_or_default();
    let text = format!("proxy {name}: {sent} sent, {acknowledged} acknowledged, {rejected} rejected{last}");
    if rejected > 0 {
        let advice = format!("{text}; `kodiak inspect dataplane {name}` shows Envoy's error");
        return (StepState::Unknown, advice);
    }
    if sent > acknowledged {
        return (StepState::Unknown, text);
    }
    (StepState::Ok, text)
}
