//! `kodiak permissions draft`: MeshTrafficPermissions as commented YAML, for review.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use kodiak_model::tags::SERVICE;
use kodiak_model::yaml;
use kodiak_terminal::{Exit, printable};
use serde_json::{Value, json};

use super::permission::{Draft, DraftOptions, DraftedPermission, Uncovered};
use super::traffic::{Edge, ObservedTraffic, PermissionForm, Selection, TrafficArgs, counted, time};
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak permissions draft -o permissions.yaml          draft permissions for everything that was observed
  kodiak permissions draft -m demo --destination backend
  kodiak permissions draft --min-requests 10            leave out callers with fewer than 10 requests
  kodiak permissions observed -o json > traffic.json    save observed traffic ...
  kodiak permissions draft -f traffic.json              ... and draft without a control plane

A permission is drafted for each destination, and has the observed callers with the number of their requests and when
they were first and last seen. Traffic outside of the observation window, which is shown at the top, is not allowed by
the draft: observe at least as long as the rarest call takes to happen. Nothing is applied; check the result with
`kodiak permissions check -f`, then apply it with `kodiak apply -f`.

Callers are named by SPIFFE ID, in `rules`. If permissions of the mesh name callers by tags, in `from`, the draft does so,
too: on the same proxies, `rules` would override them.")]
pub(crate) struct Args {
    #[command(flatten)]
    traffic: TrafficArgs,

    /// File for the permissions [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Leave out callers with fewer requests
    #[arg(long, value_name = "N", default_value_t = 0)]
    min_requests: u64,

    /// Only this destination: its name, kuma.io/service or KRI
    #[arg(long, value_name = "NAME")]
    destination: Option<String>,
}

pub(super) async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let traffic = ObservedTraffic::read(&args.traffic, session).await?;
    let options = DraftOptions { min_requests: args.min_requests, destination: args.destination.as_deref() };
    let draft = Draft::of(&traffic, options);
    let text = text(&traffic, &draft);
    match &args.output {
        None => session.terminal.data(text.trim_end())?,
        Some(file) => std::fs::write(file, &text).with_context(|| format!("cannot write {}", file.display()))?,
    }
    for line in summary(&traffic, &draft) {
        session.terminal.remark(&line);
    }
    Ok(Exit::Fine)
}

fn text(traffic: &ObservedTraffic, draft: &Draft<'_>) -> String {
    let mut text = String::new();
    let mut comment = |line: &str| writeln!(text, "# {}", printable(line)).expect("writing to a string does not fail");
    comment(&format!("MeshTrafficPermissions for mesh {}, drafted from observed traffic.", traffic.mesh));
    match traffic.window.show() {
        Some(window) => comment(&format!("Observed from {window}. Callers outside of this window are not allowed.")),
        None => comment("No proxy has reported traffic."),
    }
    for warning in traffic.warnings() {
        comment(&warning);
    }
    for (edge, reason) in &draft.uncovered {
        comment(&format!("Left out: {} to {}: {}", edge.client, edge.destination, because(*reason, edge)));
    }
    draft.permissions.iter().for_each(|permission| document(traffic, permission, &mut text));
    text
}

fn because(reason: Uncovered, edge: &Edge) -> String {
    match reason {
        Uncovered::External => "permissions do not apply to a MeshExternalService".to_owned(),
        Uncovered::NoProxies => "the destination does not exist any more, or has no proxies".to_owned(),
        Uncovered::NoService => format!("the client has no {SERVICE}; allow it by SPIFFE ID, in a policy with `rules`"),
        Uncovered::NoIdentity => "the client has no proxy any more, and no SPIFFE ID".to_owned(),
        Uncovered::FewRequests => seen(edge),
    }
}

/// `120 requests (1 failed), first seen 2026-11-16T22:00:00Z, last seen 2026-11-16T23:00:00Z`.
fn seen(edge: &Edge) -> String {
    let failed = if edge.failed > 0 { format!(" ({} failed)", edge.failed) } else { String::new() };
    let requests = counted(edge.requests, "request");
    let (first, last) = (time(edge.first_seen), time(edge.last_seen));
    if edge.seen_once() {
        return format!("{requests}{failed}, seen once, {first}");
    }
    format!("{requests}{failed}, first seen {first}, last seen {last}")
}

fn document(traffic: &ObservedTraffic, permission: &DraftedPermission<'_>, text: &mut String) {
    let destinations: Vec<_> = permission.destinations.iter().copied().collect();
    let head = json!({ "type": "MeshTrafficPermission", "name": permission.name(), "mesh": traffic.mesh });
    let target = json!({ "targetRef": permission.target_ref() });
    let _ = writeln!(text, "---\n# Callers of {}", printable(&destinations.join(", ")));
    let is_current = traffic.permission_form == PermissionForm::Rules;
    if is_current && matches!(permission.selection, Selection::Tags(_)) {
        text.push_str(
            "# MeshSubset is deprecated: no label selects exactly these Dataplanes; give them one, such as app.\n",
        );
    }
    text.push_str(&yaml::to_string(&head));
    text.push_str("spec:\n");
    indented(&yaml::to_string(&target), 2, text);
    let (start, indent) = if is_current { ("  rules:\n  - default:\n      allow:\n", 6) } else { ("  from:\n", 2) };
    text.push_str(start);
    for (caller, edges) in &permission.callers {
        for edge in edges {
            let through = if destinations.len() > 1 { format!(" to {}", edge.destination) } else { String::new() };
            let warning = if edge.seen_once() { "WARNING: " } else { "" };
            let line = format!("{warning}{}{through}: {}", edge.client, seen(edge));
            let _ = writeln!(text, "{:indent$}# {}", "", printable(&line));
        }
        let item = if is_current { with_id(caller) } else { with_tag(caller) };
        indented(&yaml::to_string(&Value::Array(vec![item])), indent, text);
    }
}

/// Item of `allow`.
fn with_id(id: &str) -> Value {
    json!({ "spiffeID": { "type": "Exact", "value": id } })
}

/// Item of `from`.
fn with_tag(service: &str) -> Value {
    json!({ "targetRef": { "kind": "MeshSubset", "tags": { SERVICE: service } }, "default": { "action": "Allow" } })
}

fn indented(yaml: &str, indent: usize, text: &mut String) {
    yaml.lines().for_each(|line| writeln!(text, "{:indent$}{line}", "").expect("writing to a string does not fail"));
}

/// Lines for stderr.
fn summary(traffic: &ObservedTraffic, draft: &Draft<'_>) -> Vec<String> {
    let edges = || {
        draft.permissions.iter().flat_map(|permission| {
            // An edge may be allowed by several SPIFFE IDs.
            let edges: BTreeMap<_, _> =
                permission.callers.values().flatten().map(|edge| ((&edge.client, &edge.destination), *edge)).collect();
            edges.into_values()
        })
    };
    let permissions = draft.permissions.len();
    let mut lines = vec![format!(
        "{permissions} MeshTrafficPermission{}, {}",
        if permissions == 1 { "" } else { "s" },
        match traffic.window.show() {
            Some(window) => format!("from traffic observed from {window}"),
            None => "because no proxy has reported traffic".to_owned(),
        }
    )];
    lines.extend(traffic.warnings());
    let once = edges().filter(|edge| edge.seen_once()).count() as u64;
    if once > 0 {
        lines.push(format!("Warning: {} seen once, marked with WARNING: review", counted(once, "edge")));
    }
    let uncovered = draft.uncovered.len() as u64;
    if uncovered > 0 {
        lines.push(format!(
            "Warning: {} not covered by the draft; its first lines have the reasons",
            counted(uncovered, "edge")
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use expect_test::expect;
    use kodiak_kinds::kinds;
    use kodiak_model::{Place, policy::Body};
    use kodiak_policies::Entry;
    use kodiak_policies::mesh_traffic_permission::{Action, Caller, Permissions, uris};

    use super::super::traffic::tests::{traffic, traffic_with_ids};
    use super::*;

    fn drafted(options: DraftOptions<'_>) -> (String, Vec<String>) {
        drafted_from(&traffic(), options)
    }

    fn drafted_from(traffic: &ObservedTraffic, options: DraftOptions<'_>) -> (String, Vec<String>) {
        let draft = Draft::of(traffic, options);
        (text(traffic, &draft), summary(traffic, &draft))
    }

    #[test]
    fn draft_is_commented_for_review() {
        let (text, summary) = drafted(DraftOptions::default());
        expect![[r#"
            # MeshTrafficPermissions for mesh shop, drafted from observed traffic.
            # Observed from 2026-11-16T20:00:00Z to 2026-11-16T22:00:00Z (2h). Callers outside of this window are not allowed.
            # Left out: web to kri_extsvc_shop_east__db_: permissions do not apply to a MeshExternalService
            # Left out: web to kri_msvc_shop_east__old_: the destination does not exist any more, or has no proxies
            # Left out: workload/batch to backend: the client has no kuma.io/service; allow it by SPIFFE ID, in a policy with `rules`
            ---
            # Callers of Odd_svc_80
            type: MeshTrafficPermission
            name: allow-to-odd-svc-80-4c55b404
            mesh: shop
            spec:
              targetRef:
                kind: MeshSubset
                tags:
                  kuma.io/service: Odd_svc_80
              from:
              # a,b: 3 requests, first seen 2026-11-16T20:00:00Z, last seen 2026-11-16T22:00:00Z
              - targetRef:
                  kind: MeshSubset
                  tags:
                    kuma.io/service: a
                default:
                  action: Allow
            ---
            # Callers of backend
            type: MeshTrafficPermission
            name: allow-to-backend
            mesh: shop
            spec:
              targetRef:
                kind: MeshSubset
                tags:
                  kuma.io/service: backend
              from:
              # WARNING: job: 1 request, seen once, 2026-11-16T20:00:00Z
              - targetRef:
                  kind: MeshSubset
                  tags:
                    kuma.io/service: job
                default:
                  action: Allow
              # web: 1200 requests (120 failed), first seen 2026-11-16T20:00:00Z, last seen 2026-11-16T22:00:00Z
              # api,web: 7 requests, first seen 2026-11-16T20:00:00Z, last seen 2026-11-16T22:00:00Z
              - targetRef:
                  kind: MeshSubset
                  tags:
                    kuma.io/service: web
                default:
                  action: Allow
            ---
            # Callers of kri_msvc_shop_east__cart_, kri_mzsvc_shop___cart_
            type: MeshTrafficPermission
            name: allow-to-cart-bd343f40
            mesh: shop
            spec:
              targetRef:
                kind: Dataplane
                labels:
                  app: cart
              from:
              # job to kri_msvc_shop_east__cart_: 2 requests, first seen 2026-11-16T20:00:00Z, last seen 2026-11-16T22:00:00Z
              - targetRef:
                  kind: MeshSubset
                  tags:
                    kuma.io/service: job
                default:
                  action: Allow
              # web to kri_mzsvc_shop___cart_: 40 requests (4 failed), first seen 2026-11-16T20:00:00Z, last seen 2026-11-16T22:00:00Z
              - targetRef:
                  kind: MeshSubset
                  tags:
                    kuma.io/service: web
                default:
                  action: Allow
            ---
            # Callers of kri_mzsvc_shop___cart_
            type: MeshTrafficPermission
            name: allow-to-cart-1-2a104ff5
            mesh: shop
            spec:
              targetRef:
                kind: Dataplane
                name: cart-1
              from:
              # web: 40 requests (4 failed), first seen 2026-11-16T20:00:00Z, last seen 2026-11-16T22:00:00Z
              - targetRef:
                  kind: MeshSubset
                  tags:
                    kuma.io/service: web
                default:
                  action: Allow
        "#]]
        .assert_eq(&text);
        expect![[r#"
            4 MeshTrafficPermissions, from traffic observed from 2026-11-16T20:00:00Z to 2026-11-16T22:00:00Z (2h)
            Warning: 1 edge seen once, marked with WARNING: review
            Warning: 3 edges not covered by the draft; its first lines have the reasons
        "#]]
        .assert_eq(&(summary.join("\n") + "\n"));
    }

    #[test]
    fn callers_with_few_requests_are_left_out() {
        let (text, _) = drafted(DraftOptions { min_requests: 100, destination: Some("backend") });
        expect![[r#"
            # MeshTrafficPermissions for mesh shop, drafted from observed traffic.
            # Observed from 2026-11-16T20:00:00Z to 2026-11-16T22:00:00Z (2h). Callers outside of this window are not allowed.
            # Left out: job to backend: 1 request, seen once, 2026-11-16T20:00:00Z
            # Left out: api,web to backend: 7 requests, first seen 2026-11-16T20:00:00Z, last seen 2026-11-16T22:00:00Z
            # Left out: workload/batch to backend: the client has no kuma.io/service; allow it by SPIFFE ID, in a policy with `rules`
            ---
            # Callers of backend
            type: MeshTrafficPermission
            name: allow-to-backend
            mesh: shop
            spec:
              targetRef:
                kind: MeshSubset
                tags:
                  kuma.io/service: backend
              from:
              # web: 1200 requests (120 failed), first seen 2026-11-16T20:00:00Z, last seen 2026-11-16T22:00:00Z
              - targetRef:
                  kind: MeshSubset
                  tags:
                    kuma.io/service: web
                default:
                  action: Allow
        "#]]
        .assert_eq(&text);
    }

    /// Permissions of the proxies of each destination, by the values in its `targetRef`.
    fn permissions(text: &str) -> BTreeMap<String, Permissions> {
        let kind = kinds().by_name("MeshTrafficPermission").unwrap();
        let documents = yaml::parse(text).unwrap().into_iter().map(|document| document.value);
        documents
            .filter(|document| !document.is_null())
            .map(|document| {
                let problems = kodiak_model::names::fault(document["name"].as_str().unwrap());
                assert_eq!(problems, None, "{document}");
                let body = Body::stored(kind, &document["spec"].to_string()).unwrap().unwrap();
                let target = document["spec"]["targetRef"].to_string();
                (target, Permissions::of(&Entry::of(&Arc::from("drafted"), &body)))
            })
            .collect()
    }

    #[test]
    fn callers_are_named_by_their_ids_unless_permissions_name_tags() {
        let (text, _) =
            drafted_from(&traffic_with_ids(), DraftOptions { min_requests: 3, destination: Some("backend") });
        expect![[r#"
            # MeshTrafficPermissions for mesh shop, drafted from observed traffic.
            # Observed from 2026-11-16T20:00:00Z to 2026-11-16T22:00:00Z (2h). Callers outside of this window are not allowed.
            # Left out: job to backend: 1 request, seen once, 2026-11-16T20:00:00Z
            ---
            # Callers of backend
            # MeshSubset is deprecated: no label selects exactly these Dataplanes; give them one, such as app.
            type: MeshTrafficPermission
            name: allow-to-backend
            mesh: shop
            spec:
              targetRef:
                kind: MeshSubset
                tags:
                  kuma.io/service: backend
              rules:
              - default:
                  allow:
                  # web: 1200 requests (120 failed), first seen 2026-11-16T20:00:00Z, last seen 2026-11-16T22:00:00Z
                  - spiffeID:
                      type: Exact
                      value: spiffe://shop.local/ns/web
                  # workload/batch: 5 requests, first seen 2026-11-16T20:00:00Z, last seen 2026-11-16T22:00:00Z
                  - spiffeID:
                      type: Exact
                      value: spiffe://shop/batch
                  # web: 1200 requests (120 failed), first seen 2026-11-16T20:00:00Z, last seen 2026-11-16T22:00:00Z
                  # api,web: 7 requests, first seen 2026-11-16T20:00:00Z, last seen 2026-11-16T22:00:00Z
                  - spiffeID:
                      type: Exact
                      value: spiffe://shop/web
        "#]].assert_eq(&text);
        let kind = kinds().by_name("MeshTrafficPermission").unwrap();
        let labelled = DraftOptions { destination: Some("cart.east"), ..DraftOptions::default() };
        for document in yaml::parse(&drafted_from(&traffic_with_ids(), labelled).0).unwrap() {
            let document = document.value;
            if !document.is_null() {
                let draft = kodiak_kinds::draft(document.clone()).unwrap();
                let checked = kodiak_model::check(kind, draft, &Place::Global).unwrap();
                assert_eq!(checked.warnings, Vec::<String>::new(), "{document}");
            }
        }
    }

    #[test]
    fn drafted_permissions_admit_exactly_the_observed_callers() {
        for traffic in [traffic(), traffic_with_ids()] {
            admits_exactly_the_observed_callers(&traffic);
        }
    }

    fn admits_exactly_the_observed_callers(traffic: &ObservedTraffic) {
        let (text, _) = drafted_from(traffic, DraftOptions::default());
        let permissions = permissions(&text);
        let admits = |target: &str, services: &[&str]| {
            let found: Vec<_> = permissions.iter().filter(|(known, _)| known.contains(target)).collect();
            let [(_, permissions)] = found[..] else { panic!("{target}: {found:?}") };
            let tags: Vec<BTreeMap<String, String>> =
                services.iter().map(|service| [(SERVICE.to_owned(), (*service).to_owned())].into()).collect();
            let uris = uris("shop", &tags);
            permissions.verdict("shop", &Caller { uris: &uris, sni: None }).action == Action::Allow
        };
        let callers: [&[&str]; 6] = [&["web"], &["job"], &["api", "web"], &["a", "b"], &["api"], &["other"]];
        for (target, allowed) in [
            ("backend", [true, true, true, false, false, false]),
            ("Odd_svc_80", [false, false, false, true, false, false]),
            ("\"app\"", [true, true, true, false, false, false]),
            ("cart-1", [true, false, true, false, false, false]),
        ] {
            assert_eq!(callers.map(|caller| admits(target, caller)), allowed, "{target}");
        }
        assert_eq!(permissions.len(), 4);
    }
}
