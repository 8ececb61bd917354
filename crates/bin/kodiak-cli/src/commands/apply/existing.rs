//! Resources that are stored already. With many of a kind, one list replaces many requests.

use std::collections::{BTreeMap, BTreeSet};

use kodiak_client::{Client, ClientError, ListQuery, PageRange, Refusal};
use serde_json::Value;

use crate::documents::FileResource;

/// Above this many resources of a kind and mesh, a list costs less than single requests.
const MANY: usize = 20;

/// A list this many times longer than the number of wanted resources costs more than single requests.
const TOO_MUCH: usize = 50;

/// Kind and mesh of resources that are listed together.
type Group = (&'static str, String);

#[derive(Debug, Default)]
pub(super) struct Existing(BTreeMap<Group, BTreeMap<String, Value>>);

pub(super) enum Known<'a> {
    Present(&'a Value),
    Absent,
    /// Not listed: request it.
    NotAsked,
}

impl Existing {
    pub(super) async fn look_up(client: &Client, resources: &[FileResource]) -> Result<Self, ClientError> {
        let mut wanted: BTreeMap<Group, BTreeSet<&str>> = BTreeMap::new();
        for resource in resources {
            wanted.entry(group(resource)).or_default().insert(&resource.checked.name);
        }
        let mut existing = Self::default();
        for (group, names) in wanted.into_iter().filter(|(_, names)| names.len() > MANY) {
            let Some(kind) = kodiak_kinds::kinds().by_name(group.0) else { continue };
            let query = ListQuery::all_of(kind, Some(&group.1));
            match list(client, &query, &names).await {
                Ok(Some(found)) => {
                    existing.0.insert(group, found);
                }
                // The mesh does not exist yet, so it has no resources.
                Err(error) if error.refusal().is_some_and(Refusal::is_not_found) => {
                    existing.0.insert(group, BTreeMap::new());
                }
                // Single requests then report the error of each resource.
                Ok(None) => (),
                Err(error) if error.refusal().is_some() => (),
                Err(error) => return Err(error),
            }
        }
        Ok(existing)
    }

    pub(super) fn of(&self, resource: &FileResource) -> Known<'_> {
        match self.0.get(&group(resource)) {
            Some(found) => found.get(&resource.checked.name).map_or(Known::Absent, Known::Present),
            None => Known::NotAsked,
        }
    }
}

fn group(resource: &FileResource) -> Group {
    (resource.checked.kind.name, resource.checked.mesh.clone())
}

/// Wanted resources of a list; `None` if the list is too long.
async fn list(
    client: &Client,
    query: &ListQuery<'_>,
    names: &BTreeSet<&str>,
) -> Result<Option<BTreeMap<String, Value>>, ClientError> {
    let first = client.page(query, PageRange::LARGEST).await?;
    if first.total > u64::try_from(names.len() * TOO_MUCH).unwrap_or(u64::MAX) {
        return Ok(None);
    }
    let items = client.list_after(query, first, |_, _| ()).await?;
    let name_of = |item: &Value| item.get("name").and_then(Value::as_str).map(str::to_owned);
    let by_name = items.into_iter().filter_map(|item| Some((name_of(&item)?, item)));
    Ok(Some(by_name.filter(|(name, _)| names.contains(name.as_str())).collect()))
}
