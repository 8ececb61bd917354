//! Columns of the table of each kind.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kodiak_kinds::Kind;
use kodiak_model::Scope;
use kodiak_terminal::Table;
use serde_json::Value;

use super::{age, status};

/// Tables as in kumactl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    Dataplane,
    Mesh,
    MeshService,
    /// MeshExternalService and MeshMultiZoneService.
    Service,
    InMesh,
    Global,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct TableOpts {
    /// Adds labels, versions and KRIs.
    pub(crate) wide: bool,
    pub(crate) now: Timestamp,
}

impl Layout {
    pub(crate) fn of(kind: &Kind) -> Self {
        match (kind.name, kind.scope) {
            ("Dataplane", _) => Self::Dataplane,
            ("Mesh", _) => Self::Mesh,
            ("MeshService", _) => Self::MeshService,
            ("MeshExternalService" | "MeshMultiZoneService", _) => Self::Service,
            (_, Scope::Mesh) => Self::InMesh,
            (_, Scope::Global) => Self::Global,
        }
    }

    /// Whether rows need overviews, which include insights.
    pub(crate) fn needs_overview(self) -> bool {
        match self {
            Self::Dataplane => true,
            Self::Mesh | Self::MeshService | Self::Service | Self::InMesh | Self::Global => false,
        }
    }

    pub(crate) fn table(self, items: &[Value], opts: TableOpts) -> String {
        let with_problems = self.has_conditions() && items.iter().any(|item| problems(item).is_some());
        let mut headers = self.headers(opts);
        if with_problems {
            headers.push("PROBLEMS");
        }
        let mut table = Table::new(headers);
        for item in items {
            let mut cells = self.cells(item, opts);
            if with_problems {
                cells.push(problems(item).unwrap_or_else(|| "-".to_owned()));
            }
            table.row(cells);
        }
        table.show()
    }

    /// Services have conditions in their status.
    fn has_conditions(self) -> bool {
        match self {
            Self::MeshService | Self::Service => true,
            Self::Dataplane | Self::Mesh | Self::InMesh | Self::Global => false,
        }
    }

    fn headers(self, opts: TableOpts) -> Vec<&'static str> {
        let mut headers = match self {
            Self::Dataplane => vec!["MESH", "NAME", "TAGS", "ADDRESS", "STATUS", "XDS", "VERSION", "AGE"],
            Self::Mesh => vec!["NAME", "mTLS", "LOCALITY", "ZONEEGRESS", "AGE"],
            Self::MeshService => {
                vec!["MESH", "NAME", "STATE", "HEALTHY", "CONNECTED", "PORTS", "ADDRESS", "HOSTNAMES", "AGE"]
            }
            Self::Service => vec!["MESH", "NAME", "PORTS", "ADDRESS", "HOSTNAMES", "AGE"],
            Self::InMesh => vec!["MESH", "NAME", "AGE"],
            Self::Global => vec!["NAME", "AGE"],
        };
        if opts.wide {
            if self == Self::Dataplane {
                headers.push("CERT UNTIL");
            }
            headers.extend(["KRI", "LABELS"]);
        }
        headers
    }

    fn cells(self, item: &Value, opts: TableOpts) -> Vec<String> {
        let (mesh, name) = (text(item, "/mesh"), text(item, "/name"));
        let age = age::since(item.get("modificationTime").and_then(Value::as_str), opts.now);
        let mut cells = match self {
            Self::Dataplane => {
                let networking = item.pointer("/dataplane/networking").unwrap_or(&Value::Null);
                vec![
                    mesh,
                    name,
                    tags(networking),
                    text(networking, "/address"),
                    status::of_dataplane(item).to_owned(),
                    status::responses(item).unwrap_or_else(|| "-".to_owned()),
                    status::versions(item).unwrap_or_else(|| "-".to_owned()),
                    age,
                ]
            }
            Self::Mesh => {
                let routing = |field: &str| switch(item.pointer("/routing").and_then(|routing| routing.get(field)));
                vec![name, mtls(item), routing("localityAwareLoadBalancing"), routing("zoneEgress"), age]
            }
            Self::MeshService => {
                let (state, called) = (text(item, "/spec/state"), called(item));
                let proxies = |count: &str| format!("{}/{}", proxies(item, count), proxies(item, "total"));
                [vec![mesh, name, state, proxies("healthy"), proxies("connected")], called.into(), vec![age]].concat()
            }
            Self::Service => [vec![mesh, name], called(item).into(), vec![age]].concat(),
            Self::InMesh => vec![mesh, name, age],
            Self::Global => vec![name, age],
        };
        if opts.wide {
            if self == Self::Dataplane {
                cells.push(status::certificate_end(item).unwrap_or("-").to_owned());
            }
            cells.extend([text(item, "/kri"), labels(item)]);
        }
        cells
    }
}

fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Ports, addresses and hostnames of a service.
fn called(item: &Value) -> [String; 3] {
    let list = |pointer: &str| item.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let all = |cells: Vec<String>| {
        let cells: Vec<String> = cells.into_iter().filter(|cell| !cell.is_empty()).collect();
        if cells.is_empty() { "-".to_owned() } else { cells.join(",") }
    };
    let number = |port: &Value| port.get("port").map(ToString::to_string).unwrap_or_default();
    let ports = list("/spec/ports").chain(item.pointer("/spec/match")).map(number).collect();
    let addresses = list("/status/vips").chain(item.pointer("/status/vip")).map(|vip| text(vip, "/ip")).collect();
    let hostnames = list("/status/addresses").map(|address| text(address, "/hostname")).collect();
    [all(ports), all(addresses), all(hostnames)]
}

/// Reasons of conditions that are `False`; `-o yaml` has their messages.
fn problems(item: &Value) -> Option<String> {
    let conditions = item.pointer("/status/conditions")?.as_array()?;
    let failed = conditions.iter().filter(|condition| text(condition, "/status") == "False");
    let reasons: Vec<String> = failed.map(|condition| text(condition, "/reason")).collect();
    (!reasons.is_empty()).then(|| reasons.join(","))
}

fn proxies(item: &Value, count: &str) -> u64 {
    let counts = item.pointer("/status/dataplaneProxies");
    counts.and_then(|counts| counts.get(count)).and_then(Value::as_u64).unwrap_or_default()
}

fn switch(value: Option<&Value>) -> String {
    if value.and_then(Value::as_bool) == Some(true) { "on" } else { "off" }.to_owned()
}

/// Enabled mTLS backend: `builtin/ca-1`.
fn mtls(mesh: &Value) -> String {
    let enabled = text(mesh, "/mtls/enabledBackend");
    let backends = mesh.pointer("/mtls/backends").and_then(Value::as_array).into_iter().flatten();
    let mut of_name = backends.filter(|backend| text(backend, "/name") == enabled);
    match of_name.next() {
        Some(backend) if !enabled.is_empty() => format!("{}/{enabled}", text(backend, "/type")),
        _ => "off".to_owned(),
    }
}

/// Tags of all inbounds and of the gateway: `kuma.io/protocol=http kuma.io/service=web,web-admin`.
pub(super) fn tags(networking: &Value) -> String {
    let inbounds = networking.get("inbound").and_then(Value::as_array).into_iter().flatten();
    let sets = inbounds.chain(networking.get("gateway")).filter_map(|one| one.get("tags")?.as_object());
    let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (key, value) in sets.flatten() {
        all.entry(key).or_default().insert(value.as_str().unwrap_or_default());
    }
    let joined = |values: &BTreeSet<&str>| values.iter().copied().collect::<Vec<_>>().join(",");
    all.iter().map(|(key, values)| format!("{key}={}", joined(values))).collect::<Vec<_>>().join(" ")
}

fn labels(item: &Value) -> String {
    let labels = item.get("labels").and_then(Value::as_object);
    let shown =
        labels.into_iter().flatten().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    let shown: Vec<_> = shown.collect();
    if shown.is_empty() { "-".to_owned() } else { shown.join(",") }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(layout: Layout, items: &[Value], wide: bool, expected: &Expect) {
        let now = "2026-11-15T12:00:00Z".parse().unwrap();
        expected.assert_eq(&layout.table(items, TableOpts { wide, now }));
    }

    #[test]
    fn shows_policies_with_their_mesh() {
        let items = [
            json!({ "mesh": "default", "name": "slow", "modificationTime": "2026-11-15T11:59:00Z", "kri": "kri_mt_default___slow_",
                    "labels": { "kuma.io/mesh": "default", "team": "a" } }),
            json!({ "mesh": "default", "name": "fast", "modificationTime": "2026-11-14T11:59:00Z" }),
        ];
        check(
            Layout::InMesh,
            &items,
            false,
            &expect![[r#"
            MESH      NAME   AGE
            default   slow   1m
            default   fast   1d"#]],
        );
        check(
            Layout::InMesh,
            &items,
            true,
            &expect![[r#"
            MESH      NAME   AGE   KRI                      LABELS
            default   slow   1m    kri_mt_default___slow_   kuma.io/mesh=default,team=a
            default   fast   1d                             -"#]],
        );
        check(
            Layout::Global,
            &items[..1],
            false,
            &expect![[r#"
            NAME   AGE
            slow   1m"#]],
        );
    }

    #[test]
    fn shows_meshes_with_their_features() {
        let items = [
            json!({ "name": "default", "modificationTime": "2026-11-15T11:59:00Z" }),
            json!({ "name": "safe", "modificationTime": "2025-11-15T11:59:00Z", "routing": { "localityAwareLoadBalancing": true, "zoneEgress": true },
                    "mtls": { "enabledBackend": "ca-1", "backends": [{ "name": "ca-1", "type": "builtin" }] } }),
        ];
        check(
            Layout::Mesh,
            &items,
            false,
            &expect![[r#"
            NAME      mTLS           LOCALITY   ZONEEGRESS   AGE
            default   off            off        off          1m
            safe      builtin/ca-1   on         on           1y"#]],
        );
    }

    #[test]
    fn shows_services_with_status_and_hostnames() {
        let status = json!({ "vips": [{ "ip": "241.0.0.1" }], "dataplaneProxies": { "healthy": 1, "connected": 2, "total": 3 },
                             "addresses": [{ "hostname": "web.svc.mesh.local" }] });
        let items = [
            json!({ "mesh": "default", "name": "web", "modificationTime": "2026-11-15T11:59:00Z", "status": status,
                    "spec": { "state": "Available", "ports": [{ "port": 80 }, { "port": 81 }] } }),
            json!({ "mesh": "default", "name": "new", "modificationTime": "2026-11-15T11:59:00Z" }),
        ];
        check(
            Layout::MeshService,
            &items,
            false,
            &expect![[r#"
                MESH      NAME   STATE       HEALTHY   CONNECTED   PORTS   ADDRESS     HOSTNAMES            AGE
                default   web    Available   1/3       2/3         80,81   241.0.0.1   web.svc.mesh.local   1m
                default   new                0/0       0/0         -       -           -                    1m"#]],
        );
        let external = [json!({ "mesh": "default", "name": "bank", "modificationTime": "2026-11-15T11:59:00Z",
                                "spec": { "match": { "port": 443 } }, "status": { "vip": { "ip": "242.0.0.1" } } })];
        check(
            Layout::Service,
            &external,
            false,
            &expect![[r#"
                MESH      NAME   PORTS   ADDRESS     HOSTNAMES   AGE
                default   bank   443     242.0.0.1   -           1m"#]],
        );
    }

    #[test]
    fn shows_reasons_of_failed_conditions() {
        let condition = |status, reason| json!({ "type": "T", "status": status, "reason": reason, "message": "m" });
        let failed = [condition("False", "TlsSettingsInvalid"), condition("True", "Fine"), condition("False", "Other")];
        let item = |name: &str, conditions: &[Value]| {
            json!({ "mesh": "default", "name": name, "modificationTime": "2026-11-15T11:59:00Z",
                    "spec": { "match": { "port": 443 } }, "status": { "conditions": conditions } })
        };
        check(
            Layout::Service,
            &[item("bank", &failed), item("fine", &[])],
            false,
            &expect![[r#"
                MESH      NAME   PORTS   ADDRESS   HOSTNAMES   AGE   PROBLEMS
                default   bank   443     -         -           1m    TlsSettingsInvalid,Other
                default   fine   443     -         -           1m    -"#]],
        );
    }

    #[test]
    fn shows_dataplanes_with_their_insights() {
        let items = [json!({
            "mesh": "default", "name": "web-1", "modificationTime": "2026-11-15T11:59:00Z", "labels": {},
            "dataplane": { "networking": { "address": "10.0.0.1", "inbound": [
                { "port": 80, "tags": { "kuma.io/service": "web", "kuma.io/protocol": "http" } },
                { "port": 81, "tags": { "kuma.io/service": "web-admin" } },
            ] } },
            "dataplaneInsight": { "subscriptions": [{
                "connectTime": "t", "version": { "kumaDp": { "version": "0.1.0" }, "envoy": { "version": "1.40.0" } },
                "status": { "total": { "responsesSent": "3", "responsesAcknowledged": "3" } },
            }], "mTLS": { "certificateExpirationTime": "2026-11-16T12:00:00Z" } },
        })];
        check(
            Layout::Dataplane,
            &items,
            false,
            &expect![[r#"
                MESH      NAME    TAGS                                                  ADDRESS    STATUS   XDS         VERSION        AGE
                default   web-1   kuma.io/protocol=http kuma.io/service=web,web-admin   10.0.0.1   Online   acked 3/3   0.1.0/1.40.0   1m"#]],
        );
        check(
            Layout::Dataplane,
            &items,
            true,
            &expect![[r#"
                MESH      NAME    TAGS                                                  ADDRESS    STATUS   XDS         VERSION        AGE   CERT UNTIL             KRI   LABELS
                default   web-1   kuma.io/protocol=http kuma.io/service=web,web-admin   10.0.0.1   Online   acked 3/3   0.1.0/1.40.0   1m    2026-11-16T12:00:00Z         -"#]],
        );
    }

    #[test]
    fn shows_incomplete_items() {
        check(
            Layout::Dataplane,
            &[json!({ "name": 5 }), json!([])],
            false,
            &expect![[r#"
                MESH   NAME   TAGS   ADDRESS   STATUS    XDS   VERSION   AGE
                                               Offline   -     -         never
                                               Offline   -     -         never"#]],
        );
    }
}
