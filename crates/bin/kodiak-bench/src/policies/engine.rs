//! The same changes through the whole engine, up to the encoded resources of each proxy.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use kodiak_engine::{Engine, EngineChange, EngineSettings, offline::Placeholders};
use serde_json::json;

use super::{
    super::results::{Results, as_f64},
    change::{Scope, percentile},
    mesh::{MESH, Size},
};

pub(super) fn measure(
    size: Size,
    connected: usize,
    count: usize,
    (prefix, which): (&str, &str),
    results: &mut Results,
) -> anyhow::Result<()> {
    let mut engine = Engine::new(EngineSettings { zone: "default".into(), ..EngineSettings::default() });
    let mut apply = |changes: Vec<EngineChange>| engine.apply(changes, &Placeholders, Timestamp::UNIX_EPOCH).stats;
    apply(mesh(size)?);
    let connected = connected.min(size.proxies);
    let arrive = |n| EngineChange::Connected { key: Size::key(n), metadata: Arc::default() };
    let start = Instant::now();
    let stats = apply((0..connected).map(arrive).collect());
    let object = format!("{prefix}engine");
    let mut add = |key: &str, text: &str, value| {
        results.add(format!("{object}.{key}"), format!("engine{which}: {text}"), value);
    };
    add("connected", "proxies connected", as_f64(connected));
    add("connect_s", "all at once, s", start.elapsed().as_secs_f64());
    add("connect_encoded", "resources encoded for them", number(stats.encoded));
    for scope in Scope::ALL {
        let (mut encoded, mut woken) = (0, 0);
        let mut times: Vec<Duration> = Vec::new();
        let picked = scope.picked(size, count);
        for n in &picked {
            let (key, policy) = size.policy(*n, 1)?;
            let change = EngineChange::Policy { mesh: MESH.into(), key, policy: Some(policy) };
            let start = Instant::now();
            let stats = apply(vec![change]);
            times.push(start.elapsed());
            encoded += stats.encoded;
            woken += stats.woken;
        }
        let mean = |sum: u64| number(sum) / as_f64(picked.len().max(1));
        let object = format!("{prefix}engine_{}", scope.key());
        let mut add = |key: &str, text: &str, value| {
            results.add(format!("{object}.{key}"), format!("engine{which}, {}: {text}", scope.name()), value);
        };
        add("encoded", "resources encoded", mean(encoded));
        add("woken", "proxies woken", mean(woken));
        add("p50_ms", "p50, ms", percentile(&mut times, 50));
        add("p99_ms", "p99, ms", percentile(&mut times, 99));
    }
    Ok(())
}

pub(super) fn mesh(size: Size) -> anyhow::Result<Vec<EngineChange>> {
    let backends = json!([{ "name": "ca", "type": "builtin" }]);
    let spec = serde_json::from_value(json!({ "mtls": { "enabledBackend": "ca", "backends": backends } }))?;
    let mut changes = vec![EngineChange::Mesh { name: MESH.into(), mesh: Some(Arc::new(spec)), reachability: None }];
    for n in 0..size.policies {
        let (key, policy) = size.policy(n, 0)?;
        changes.push(EngineChange::Policy { mesh: MESH.into(), key, policy: Some(policy) });
    }
    for n in 0..size.proxies {
        changes.push(EngineChange::Dataplane { key: Size::key(n), dataplane: Some(size.proxy(n)?) });
    }
    Ok(changes)
}

pub(super) fn number(count: u64) -> f64 {
    as_f64(usize::try_from(count).unwrap_or(usize::MAX))
}
