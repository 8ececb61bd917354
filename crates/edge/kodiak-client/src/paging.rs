//! Lists of resources: page by page, or all pages.

use kodiak_model::Kind;
use serde::Deserialize;
use serde_json::Value;

use super::{Client, ClientError, encode, resources::collection};

/// Largest page of the API.
const LARGEST_PAGE: u32 = 1000;

/// Resources to list.
#[derive(Clone, Copy)]
pub struct ListQuery<'a> {
    pub kind: &'static Kind,
    /// `None` lists all meshes.
    pub mesh: Option<&'a str>,
    /// Include the insight of each resource.
    pub overview: bool,
    /// Only resources with this text in their names.
    pub name: Option<&'a str>,
    /// Only resources with all of these labels.
    pub labels: &'a [(String, String)],
}

impl<'a> ListQuery<'a> {
    /// All resources of a kind, without their insights.
    pub fn all_of(kind: &'static Kind, mesh: Option<&'a str>) -> Self {
        Self { kind, mesh, overview: false, name: None, labels: &[] }
    }

    fn path(&self, range: PageRange) -> String {
        let mut path = collection(self.kind, self.mesh);
        if self.overview {
            path.push_str("/_overview");
        }
        let mut separator = '?';
        let mut parameter = |key: &str, value: &str| {
            path.push(separator);
            path.push_str(key);
            path.push('=');
            path.push_str(&encode(value));
            separator = '&';
        };
        if let Some(size) = range.size {
            parameter("size", &size.to_string());
        }
        if range.offset > 0 {
            parameter("offset", &range.offset.to_string());
        }
        if let Some(name) = self.name {
            parameter("name", name);
        }
        for (key, value) in self.labels {
            parameter(&encode(&format!("filter[labels.{key}]")), value);
        }
        path
    }
}

/// Range of a list. Without a size, the server chooses one.
#[derive(Debug, Clone, Copy, Default)]
pub struct PageRange {
    pub size: Option<u32>,
    pub offset: u64,
}

impl PageRange {
    /// First page of the largest size.
    pub const LARGEST: Self = Self { size: Some(LARGEST_PAGE), offset: 0 };
}

/// Page of a list.
#[derive(Debug)]
pub struct Page {
    pub total: u64,
    pub items: Vec<Value>,
    /// Offset of the next page.
    pub next: Option<u64>,
    /// URL of the next page, as the server sent it.
    pub next_url: Option<String>,
}

impl Page {
    /// List without further pages.
    pub fn whole(items: Vec<Value>) -> Self {
        Self { total: u64::try_from(items.len()).unwrap_or(u64::MAX), items, next: None, next_url: None }
    }
}

#[derive(Deserialize)]
struct PageBody {
    #[serde(default)]
    total: u64,
    /// Go writes `null` for an empty list.
    items: Option<Vec<Value>>,
    next: Option<String>,
}

impl Client {
    /// One page of a list.
    pub async fn page(&self, query: &ListQuery<'_>, range: PageRange) -> Result<Page, ClientError> {
        self.page_at(&query.path(range)).await
    }

    /// Page of the list at `path`.
    pub async fn page_at(&self, path: &str) -> Result<Page, ClientError> {
        let PageBody { total, items, next } = self.read(path).await?;
        let (next, next_url) = (next.as_deref().and_then(offset), next);
        Ok(Page { total, items: items.unwrap_or_default(), next, next_url })
    }

    /// All pages of the list at `path`, which may have a query.
    pub async fn list_at(&self, path: &str) -> Result<Vec<Value>, ClientError> {
        let (mut items, mut offset) = (Vec::new(), 0);
        loop {
            let separator = if path.contains('?') { '&' } else { '?' };
            let path = format!("{path}{separator}size={LARGEST_PAGE}&offset={offset}");
            let page = self.page_at(&path).await?;
            items.extend(page.items);
            match page.next {
                None => return Ok(items),
                Some(next) if next > offset => offset = next,
                Some(_) => {
                    let address = self.address.to_string();
                    return Err(ClientError::Endless { address, what: format!("GET {path}") });
                }
            }
        }
    }

    /// All pages of a list. `seen` is called after each page with the number of items so far, and in total.
    pub async fn list_all(
        &self,
        query: &ListQuery<'_>,
        seen: impl FnMut(usize, u64),
    ) -> Result<Vec<Value>, ClientError> {
        let first = self.page(query, PageRange::LARGEST).await?;
        self.list_after(query, first, seen).await
    }

    /// Items of `first` and of all pages after it.
    pub async fn list_after(
        &self,
        query: &ListQuery<'_>,
        first: Page,
        mut seen: impl FnMut(usize, u64),
    ) -> Result<Vec<Value>, ClientError> {
        let Page { total, mut items, mut next, next_url: _ } = first;
        let mut range = PageRange::LARGEST;
        seen(items.len(), total);
        while let Some(offset) = next {
            if offset <= range.offset {
                let address = self.address.to_string();
                return Err(ClientError::Endless { address, what: format!("GET {}", query.path(range)) });
            }
            range.offset = offset;
            let page = self.page(query, range).await?;
            items.extend(page.items);
            seen(items.len(), page.total);
            next = page.next;
        }
        Ok(items)
    }
}

/// Offset in the URL of the next page. Its host is ignored: behind a load balancer it may be unreachable.
fn offset(next: &str) -> Option<u64> {
    let (_, query) = next.split_once('?')?;
    query.split('&').find_map(|pair| pair.strip_prefix("offset=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_only_the_offset_of_the_next_page() {
        assert_eq!(offset("http://10.0.0.1:5681/meshes?offset=100&size=10"), Some(100));
        assert_eq!(offset("http://x/meshes?size=10&offset=7"), Some(7));
        for odd in ["", "http://x/meshes", "http://x?offset=", "http://x?offset=-1", "http://x?offsets=5"] {
            assert_eq!(offset(odd), None, "{odd}");
        }
    }

    #[test]
    fn encodes_queries() {
        let kind = kodiak_kinds::kinds().by_name("MeshTimeout").unwrap();
        let labels = [("kuma.io/zone".to_owned(), "a b".to_owned())];
        let query = ListQuery { kind, mesh: Some("de/mo"), overview: false, name: Some("x&y"), labels: &labels };
        assert_eq!(
            query.path(PageRange { size: Some(5), offset: 10 }),
            "/meshes/de%2Fmo/meshtimeouts?size=5&offset=10&name=x%26y&filter%5Blabels.kuma.io%2Fzone%5D=a%20b"
        );
        let all = ListQuery::all_of(kind, None);
        assert_eq!(all.path(PageRange::default()), "/meshtimeouts");
    }
}
