//! Human-readable preview: writes, one line per proxy, and a summary.

use std::fmt::Write as _;

use kodiak_kinds::kinds;
use kodiak_model::Scope;
use kodiak_terminal::{Table, printable};

use super::response::{DiffResponse, EnvoyResourceDiff, FaultyProxy, ProxyDiff, WriteEffect};

/// Proxies whose clusters are listed without --full, and names in each list.
const MOST_PROXIES: usize = 50;
const MOST_NAMES: usize = 8;

/// Without a newline at its end.
pub(super) fn text(mesh: &str, answer: &DiffResponse, full: bool) -> String {
    let mut text = String::new();
    for WriteEffect { kind, name, effect, .. } in &answer.changes {
        let in_mesh = kinds().by_name(kind).is_some_and(|kind| kind.scope == Scope::Mesh);
        let place = if in_mesh { format!(" mesh={mesh:?}") } else { String::new() };
        let _ = writeln!(text, "type={kind:?}{place} name={name:?} {}", would(effect));
    }
    if !answer.proxies.is_empty() {
        let _ = writeln!(text, "\n{}", table(&answer.proxies));
        if let Some(clusters) = clusters(&answer.proxies) {
            let _ = writeln!(text, "\n{clusters}");
        }
    }
    if full {
        answer.proxies.iter().for_each(|proxy| text.push_str(&in_full(proxy)));
    }
    for FaultyProxy { name, faults } in &answer.faults {
        let _ = write!(text, "\n{} would keep last good versions:\n{}", printable(name), indented(&faults.join("\n")));
    }
    if !answer.proxies.is_empty() || !answer.faults.is_empty() {
        text.push('\n');
    }
    text + &summary(answer, full)
}

fn would(effect: &str) -> String {
    match effect {
        "unchanged" => "is up to date".to_owned(),
        effect => format!("would be {effect}"),
    }
}

fn table(proxies: &[ProxyDiff]) -> String {
    let mut table = Table::new(["PROXY", "ADDED", "REMOVED", "CHANGED", "BYTES"]);
    for proxy in proxies {
        let count = |what: &str| proxy.counts.get(what).copied().unwrap_or_default().to_string();
        let counts = ["added", "removed", "changed"].map(count);
        table.row([proxy.name.clone()].into_iter().chain(counts).chain([proxy.bytes.to_string()]));
    }
    table.show()
}

/// Names of clusters that proxies gain or lose, as far as they are few.
fn clusters(proxies: &[ProxyDiff]) -> Option<String> {
    let of = |resources: &[EnvoyResourceDiff]| {
        let clusters = resources.iter().filter(|resource| resource.type_url.ends_with(".Cluster"));
        clusters.map(|cluster| cluster.name.clone()).collect::<Vec<_>>()
    };
    let changed: Vec<_> = proxies
        .iter()
        .map(|proxy| (&proxy.name, of(&proxy.added), of(&proxy.removed)))
        .filter(|(_, added, removed)| !added.is_empty() || !removed.is_empty())
        .collect();
    let mut table = Table::new(["PROXY", "ADDED CLUSTERS", "REMOVED CLUSTERS"]);
    for (name, added, removed) in changed.iter().take(MOST_PROXIES) {
        table.row([(*name).clone(), listed(added), listed(removed)]);
    }
    let more = changed.len().saturating_sub(MOST_PROXIES);
    let note = if more > 0 { format!("\n... and {}; --full shows all", self::proxies(more)) } else { String::new() };
    (!changed.is_empty()).then(|| table.show() + &note)
}

/// `a, b and 3 more`
fn listed(names: &[String]) -> String {
    let shown = names.iter().take(MOST_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST_NAMES) {
        0 if names.is_empty() => "-".to_owned(),
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Every added, removed or changed Envoy resource.
fn in_full(proxy: &ProxyDiff) -> String {
    let mut text = format!("\n{}\n", printable(&proxy.name));
    for (what, held) in [("+", &proxy.added), ("-", &proxy.removed)] {
        for resource in held {
            let _ = writeln!(text, "  {what} {}", named(resource));
        }
    }
    for resource in &proxy.changed {
        let _ = writeln!(text, "  ~ {}, before {}", named(resource), size(resource.bytes_before));
        for operation in &resource.patch {
            let sign = match operation.op.as_str() {
                "remove" => '-',
                "add" => '+',
                // A test operation is followed by a removal.
                _ => continue,
            };
            let _ = writeln!(text, "    {sign} {}: {}", printable(&operation.path), operation.value);
        }
    }
    text
}

/// `Listener outbound:127.0.0.1:80, 1.2 kB`
fn named(resource: &EnvoyResourceDiff) -> String {
    let short = resource.type_url.rsplit('.').next().unwrap_or_default();
    format!("{} {}, {}", printable(short), printable(&resource.name), size(resource.bytes))
}

fn summary(answer: &DiffResponse, full: bool) -> String {
    let (changed, faulty) = (answer.proxies.len(), answer.faults.len());
    let all = changed + faulty + answer.unchanged;
    let mut text = match changed {
        0 => format!("none of {} would change", proxies(all)),
        _ => format!("{changed} of {} would change, {} would be sent", proxies(all), size(answer.bytes)),
    };
    if let Some(first) = answer.faults.first() {
        let why = first.faults.first().map_or("", String::as_str);
        let more = if faulty > 1 { " and more" } else { "" };
        let _ = write!(text, "; {} would keep last good versions because {why}{more}", proxies(faulty));
    }
    if full && answer.left_out > 0 {
        let _ = write!(text, "; {} of them not shown in full, for there is too much", answer.left_out);
    }
    printable(&text).replace('\n', " ")
}

fn proxies(count: usize) -> String {
    format!("{count} {}", if count == 1 { "proxy" } else { "proxies" })
}

/// `12.3 kB`
fn size(bytes: usize) -> String {
    let (unit, name) = match bytes {
        0..1_000 => return format!("{bytes} bytes"),
        1_000..1_000_000 => (1_000, "kB"),
        _ => (1_000_000, "MB"),
    };
    format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit)
}

fn indented(text: &str) -> String {
    printable(text).lines().flat_map(|line| ["  ", line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::{Value, json};

    use super::*;

    fn shown(answer: &Value, full: bool) -> String {
        text("default", &DiffResponse::read(answer).unwrap(), full)
    }

    fn answer() -> Value {
        let listener = "type.googleapis.com/envoy.config.listener.v3.Listener";
        let patch = json!([
            { "op": "test", "path": "/a", "value": 1 },
            { "op": "remove", "path": "/a", "value": 1 },
            { "op": "add", "path": "/a", "value": { "b": "c" } },
        ]);
        let changed =
            json!([{ "type": listener, "name": "outbound:1", "bytes": 1230, "bytesBefore": 999, "patch": patch }]);
        let web = json!({
            "name": "web-1", "bytes": 1300, "counts": { "added": 1, "removed": 1, "changed": 1 },
            "added": [{ "type": listener, "name": "new", "bytes": 70 }],
            "removed": [{ "type": listener, "name": "old\u{1b}", "bytes": 60 }],
            "changed": changed,
        });
        json!({
            "changes": [
                { "type": "MeshTimeout", "name": "slow", "effect": "created", "warnings": [] },
                { "type": "MeshTimeout", "name": "same", "effect": "unchanged", "warnings": [] },
            ],
            "proxies": [web], "unchanged": 38, "bytes": 1300, "leftOut": 0,
            "faults": [{ "name": "api-1", "faults": ["two listeners are at 10.0.0.1:80"] }],
        })
    }

    #[test]
    fn shows_one_line_per_proxy_and_a_summary() {
        expect![[r#"
            type="MeshTimeout" mesh="default" name="slow" would be created
            type="MeshTimeout" mesh="default" name="same" is up to date

            PROXY   ADDED   REMOVED   CHANGED   BYTES
            web-1   1       1         1         1300

            api-1 would keep last good versions:
              two listeners are at 10.0.0.1:80

            1 of 40 proxies would change, 1.3 kB would be sent; 1 proxy would keep last good versions because two listeners are at 10.0.0.1:80"#]]
        .assert_eq(&shown(&answer(), false));
    }

    #[test]
    fn full_output_shows_removed_and_added_values() {
        let mut answer = answer();
        answer["faults"] = json!([]);
        expect![[r#"
            type="MeshTimeout" mesh="default" name="slow" would be created
            type="MeshTimeout" mesh="default" name="same" is up to date

            PROXY   ADDED   REMOVED   CHANGED   BYTES
            web-1   1       1         1         1300

            web-1
              + Listener new, 70 bytes
              - Listener old�, 60 bytes
              ~ Listener outbound:1, 1.2 kB, before 999 bytes
                - /a: 1
                + /a: {"b":"c"}

            1 of 39 proxies would change, 1.3 kB would be sent"#]]
        .assert_eq(&shown(&answer, true));
    }

    #[test]
    fn shows_one_line_if_nothing_changes() {
        let nothing = json!({ "changes": [], "proxies": [], "unchanged": 1, "bytes": 0, "faults": [] });
        assert_eq!(shown(&nothing, true), "none of 1 proxy would change");
    }

    #[test]
    fn lists_some_of_the_clusters_that_proxies_gain_or_lose() {
        let cluster = |n: usize| {
            let type_url = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
            json!({ "type": type_url, "name": format!("svc-{n}"), "bytes": 1 })
        };
        let proxy = |name: &str, removed: usize| {
            let removed: Vec<_> = (0..removed).map(cluster).collect();
            json!({ "name": name, "bytes": 1, "counts": {}, "removed": removed })
        };
        let answer = |proxies: Vec<Value>| json!({ "changes": [], "proxies": proxies, "unchanged": 0, "bytes": 1, "faults": [] });
        let text = shown(&answer(vec![proxy("a", 2), proxy("b", 10), proxy("c", 0)]), false);
        expect![[r#"

            PROXY   ADDED   REMOVED   CHANGED   BYTES
            a       0       0         0         1
            b       0       0         0         1
            c       0       0         0         1

            PROXY   ADDED CLUSTERS   REMOVED CLUSTERS
            a       -                svc-0, svc-1
            b       -                svc-0, svc-1, svc-2, svc-3, svc-4, svc-5, svc-6, svc-7 and 2 more

            3 of 3 proxies would change, 1 bytes would be sent"#]]
        .assert_eq(&text);
        let many = (0..60).map(|n| proxy(&format!("p-{n}"), 1)).collect();
        assert!(shown(&answer(many), false).contains("\n... and 10 proxies; --full shows all\n"));
    }

    #[test]
    fn rounds_sizes_down() {
        for (bytes, expected) in [(0, "0 bytes"), (999, "999 bytes"), (12_345, "12.3 kB"), (7_654_321, "7.6 MB")] {
            assert_eq!(size(bytes), expected);
        }
    }
}
