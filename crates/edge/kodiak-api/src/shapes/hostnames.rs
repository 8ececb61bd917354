//! `<service>/{name}/_hostnames`.

use kodiak_inspection::inspect::hostnames;
use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct Hostnames {
    total: usize,
    /// `null` when there are none.
    items: Option<Vec<Hostname>>,
}

#[derive(Serialize)]
struct Hostname {
    hostname: String,
    zones: [Zone; 1],
}

#[derive(Serialize)]
struct Zone {
    name: String,
}

impl From<hostnames::Hostnames> for Hostnames {
    fn from(found: hostnames::Hostnames) -> Self {
        let hostnames::Hostnames { hostnames, zone } = found;
        let item = |hostname| Hostname { hostname, zones: [Zone { name: zone.clone() }] };
        let items: Vec<Hostname> = hostnames.into_iter().map(item).collect();
        Self { total: items.len(), items: (!items.is_empty()).then_some(items) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn list_without_hostnames_is_null() {
        let shape = |hostnames: &[&str]| {
            let hostnames = hostnames.iter().map(|name| (*name).to_owned()).collect();
            json!(Hostnames::from(hostnames::Hostnames { hostnames, zone: "east".to_owned() }))
        };
        assert_eq!(shape(&[]), json!({ "total": 0, "items": null }));
        let items = json!([{ "hostname": "a.mesh", "zones": [{ "name": "east" }] }]);
        assert_eq!(shape(&["a.mesh"]), json!({ "total": 1, "items": items }));
    }
}
