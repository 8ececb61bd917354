//! Results as tables and as JSON.

use kodiak_terminal::Table;
use serde_json::{Map, Value, json};

use super::{
    super::results::millis,
    Measured,
    events::{Cost, Event},
    mesh::{CALLS, Size},
    work::Work,
};

const COUNTS: [&str; 5] = ["LOOKED AT", "SPEC WRITES", "STATUS WRITES", "ENCODED", "WOKEN"];

/// Without a newline at its end.
pub(super) fn text(all: &[Measured], samples: usize) -> String {
    let Some(Size { per_service, .. }) = all.first().map(|measured| measured.size) else { return String::new() };
    let callers = CALLS * per_service;
    format!(
        "Meshes in mode Everywhere with mutual TLS. Each service has {per_service} Dataplanes, whose proxies are all \
         connected and redirected.\nEach proxy may reach {CALLS} services (reachableServices and reachableBackends), so \
         {callers} proxies call a service, however large the mesh.\n\n\
         First, all Dataplanes are written, then all proxies connect:\n\n{}\n\n\
         Then one more instance of a service comes, changes its health and goes; the most of {samples} samples:\n\n{}\n\n\
         LOOKED AT: services. WRITES: of MeshServices. ENCODED: resources; what was encoded a moment ago is remembered.\n\
         WOKEN: proxies that get an update, including the new instance itself.",
        fills(all).show(),
        events(all).show(),
    )
}

fn fills(all: &[Measured]) -> Table {
    let mut table = Table::new(["DATAPLANES", "SERVICES"].into_iter().chain(COUNTS).chain(["S", "MEMORY MIB"]));
    for Measured { size, fill, .. } in all {
        let last = [format!("{:.2}", fill.took.as_secs_f64()), format!("{:.0}", fill.memory)];
        table.row(start(*size).into_iter().chain(counts(fill.work)).chain(last));
    }
    table
}

/// Sizes of one event are in adjacent rows, since these are to be compared.
fn events(all: &[Measured]) -> Table {
    let headers = ["AN INSTANCE", "DATAPLANES", "SERVICES"].into_iter().chain(COUNTS);
    let mut table = Table::new(headers.chain(["MEDIAN MS", "MAX MS"]));
    for event in Event::ALL {
        for Measured { size, events, .. } in all {
            for (_, Cost { work, median, longest }) in events.iter().filter(|(each, _)| *each == event) {
                let times = [median, longest].map(|time| format!("{:.2}", millis(*time)));
                let name = [event.name().to_owned()];
                table.row(name.into_iter().chain(start(*size)).chain(counts(*work)).chain(times));
            }
        }
    }
    table
}

fn start(size: Size) -> [String; 2] {
    [size.dataplanes(), size.services].map(|count| count.to_string())
}

fn counts(work: Work) -> [String; 5] {
    let Work { looked_at, spec_writes, status_writes, encoded, woken } = work;
    [looked_at, spec_writes, status_writes, encoded, woken].map(|count| count.to_string())
}

pub(super) fn json(all: &[Measured], samples: usize) -> Value {
    let sizes: Vec<Value> = all.iter().map(of_size).collect();
    json!({ "samples": samples, "reachable": CALLS, "sizes": sizes })
}

fn of_size(Measured { size, fill, events }: &Measured) -> Value {
    let mut object = Map::new();
    object.insert("dataplanes".to_owned(), size.dataplanes().into());
    object.insert("services".to_owned(), size.services.into());
    object.insert("callers".to_owned(), size.callers().into());
    let more = json!({ "s": fill.took.as_secs_f64(), "memory_mb": fill.memory });
    object.insert("fill".to_owned(), with(fill.work, more));
    for (event, Cost { work, median, longest }) in events {
        let more = json!({ "p50_ms": millis(*median), "max_ms": millis(*longest) });
        object.insert(event.key().to_owned(), with(*work, more));
    }
    Value::Object(object)
}

fn with(work: Work, mut object: Value) -> Value {
    let Work { looked_at, spec_writes, status_writes, encoded, woken } = work;
    for (key, count) in [
        ("looked_at", looked_at),
        ("spec_writes", spec_writes),
        ("status_writes", status_writes),
        ("encoded", encoded),
        ("woken", woken),
    ] {
        object[key] = count.into();
    }
    object
}
