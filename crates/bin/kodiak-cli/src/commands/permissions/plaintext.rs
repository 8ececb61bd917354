//! Callers without mTLS, as tables.

use kodiak_inspection::calls::RefusedCaller;
use kodiak_terminal::Table;

use super::traffic::{PlaintextCaller, time};
use crate::report::count;

/// Dataplanes of an address that are shown.
const MOST_DATAPLANES: usize = 3;

pub(super) fn table(callers: &[PlaintextCaller]) -> String {
    let rows = callers.iter().map(|caller| {
        let PlaintextCaller { address, dataplanes, server, port, requests, first_seen, last_seen } = caller;
        [
            address.to_string(),
            names(dataplanes),
            server.clone(),
            port.to_string(),
            requests.to_string(),
            time(*first_seen),
            time(*last_seen),
        ]
    });
    show("CALLER WITHOUT MTLS", rows)
}

pub(super) fn refused(callers: &[RefusedCaller]) -> String {
    let rows = callers.iter().map(|caller| {
        let RefusedCaller { address, dataplanes, server, port, requests, first_seen, last_seen } = caller;
        [
            address.to_string(),
            names(dataplanes),
            server.clone(),
            port.to_string(),
            requests.to_string(),
            time(*first_seen),
            time(*last_seen),
        ]
    });
    show("REFUSED CALLER WITHOUT MTLS", rows)
}

/// Line of a summary.
pub(super) fn summary(callers: &[RefusedCaller]) -> String {
    let callers = count(callers.len(), "caller without mTLS", "callers without mTLS");
    format!(
        "{callers} would be refused: bring them into the mesh first, or keep the inbounds permissive with a MeshTLS; --since leaves out old ones"
    )
}

fn show(title: &str, rows: impl Iterator<Item = [String; 7]>) -> String {
    let mut table = Table::new([title, "DATAPLANE", "SERVER", "PORT", "REQUESTS", "FIRST SEEN", "LAST SEEN"]);
    rows.for_each(|row| table.row(row));
    table.show()
}

fn names(dataplanes: &[String]) -> String {
    let shown = dataplanes.iter().take(MOST_DATAPLANES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match dataplanes.len().saturating_sub(MOST_DATAPLANES) {
        0 if shown.is_empty() => "-".to_owned(),
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn callers_have_an_address_and_the_dataplanes_there() {
        let caller = |address: &str, dataplanes: &[&str]| PlaintextCaller {
            address: address.parse().unwrap(),
            dataplanes: dataplanes.iter().map(|name| (*name).to_owned()).collect(),
            server: "backend".to_owned(),
            port: 8080,
            requests: 12,
            first_seen: Timestamp::UNIX_EPOCH,
            last_seen: Timestamp::from_second(60).unwrap(),
        };
        let callers = [caller("10.0.0.7", &[]), caller("fd00::1", &["a", "b", "c", "d"])];
        expect![[r#"
            CALLER WITHOUT MTLS   DATAPLANE            SERVER    PORT   REQUESTS   FIRST SEEN             LAST SEEN
            10.0.0.7              -                    backend   8080   12         1970-01-01T00:00:00Z   1970-01-01T00:01:00Z
            fd00::1               a, b, c and 1 more   backend   8080   12         1970-01-01T00:00:00Z   1970-01-01T00:01:00Z"#]].assert_eq(&table(&callers));
    }
}
