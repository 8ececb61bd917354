//! In small: what is counted, never how long it took.

use super::*;

/// Callers of each service, with two instances each.
const CALLERS: u64 = 20;

fn measured(dataplanes: usize) -> Measured {
    measure(Size::of(dataplanes, 2).unwrap(), 3).unwrap().1
}

#[test]
fn one_instance_costs_the_same_in_a_mesh_of_any_size() {
    let work = |measured: &Measured| -> Vec<(Event, Work)> {
        measured.events.iter().map(|(event, cost)| (*event, cost.work)).collect()
    };
    let (small, large) = (measured(24), measured(100));
    let [comes, others @ ..] = &*work(&small) else { panic!("nothing was measured") };
    // Once when its Dataplane is written and once when it connects; it is told of itself, and its callers of it.
    let (looked_at, status_writes, woken) = (comes.1.looked_at, comes.1.status_writes, comes.1.woken);
    assert_eq!((looked_at, status_writes, woken), (4, 2, CALLERS + 1));
    assert!(comes.1.encoded > 0);
    for (event, Work { looked_at, spec_writes, status_writes, woken, .. }) in others {
        assert_eq!((*looked_at, *spec_writes, *status_writes, *woken), (2, 0, 1, CALLERS), "{event:?}");
    }
    assert_eq!(work(&small), work(&large));
    assert!(small.fill.work.encoded < large.fill.work.encoded);
}

#[test]
fn both_forms_tell_all_sizes_and_events() {
    let all = [measured(22), measured(30)];
    let json = report::json(&all, 3);
    for (size, dataplanes) in [(0, 22), (1, 30)] {
        let of_size = &json["sizes"][size];
        assert_eq!((&of_size["dataplanes"], &of_size["callers"]), (&dataplanes.into(), &CALLERS.into()), "{json}");
        assert!(of_size["fill"]["memory_mb"].is_number() && of_size["fill"]["s"].is_number(), "{json}");
        for event in Event::ALL {
            let cost = &of_size[event.key()];
            assert!(cost["woken"].as_u64() >= Some(CALLERS) && cost["p50_ms"].is_number(), "{json}");
        }
    }
    let text = report::text(&all, 3);
    for event in Event::ALL {
        let rows = text.lines().filter(|line| line.starts_with(&format!("{}   ", event.name())));
        assert_eq!(rows.count(), all.len(), "{text}");
    }
    assert!(text.contains("20 proxies call a service"), "{text}");
}

#[test]
fn a_mesh_in_which_nobody_has_others_to_call_is_refused() {
    let error = Size::of(54, 5).unwrap_err().to_string();
    assert!(error.ends_with("give at least 55"), "{error}");
    assert_eq!(Size::of(59, 5).unwrap().dataplanes(), 55);
}
