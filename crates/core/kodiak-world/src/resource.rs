//! Decoded resource.

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use kodiak_model::{Checked, Erased, Kind, Labels, ResourceKey, Spec};
use kodiak_rules::{Policy, Proxy};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Destination, Stored, decode::decode};

/// Stored resource as typed values; those of the last readable version when its spec is unreadable.
#[derive(Debug, Clone)]
pub struct Resource {
    pub key: ResourceKey,
    /// `None` for internal records, and for kinds of other versions.
    pub kind: Option<&'static Kind>,
    pub labels: Arc<Labels>,
    pub created: Timestamp,
    pub version: u64,
    /// `None` while there is no status.
    pub status_version: Option<u64>,
    pub revision: u64,
    pub(crate) content: Option<Content>,
    pub(crate) status: Option<Erased>,
    pub(crate) unreadable: Option<Unreadable>,
    pub(crate) invalid_regexes: Vec<(String, String)>,
    pub(crate) text: Text,
}

/// Record that a resource was decoded from. A revision alone is not unique: it belongs to one history of the store.
#[derive(Clone)]
pub(crate) struct Text {
    revision: u64,
    spec: Arc<str>,
    status: Option<Arc<str>>,
}

impl Text {
    pub(crate) fn of(stored: Stored<'_>) -> Self {
        Self { revision: stored.revision, spec: stored.spec.clone(), status: stored.status.cloned() }
    }

    pub(crate) fn is_of(&self, stored: Stored<'_>) -> bool {
        let same = |ours: &Arc<str>, other: &Arc<str>| Arc::ptr_eq(ours, other) || ours == other;
        self.revision == stored.revision
            && same(&self.spec, stored.spec)
            && match (&self.status, stored.status) {
                (Some(ours), Some(other)) => same(ours, other),
                (None, None) => true,
                _ => false,
            }
    }
}

/// Omits the contents, which may be a Secret.
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Text").field("revision", &self.revision).finish_non_exhaustive()
    }
}

/// Equal when decoded from equal records.
impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        let Text { revision, spec, status } = &other.text;
        self.key == other.key && (self.text.revision, &self.text.spec, &self.text.status) == (*revision, spec, status)
    }
}

impl Eq for Resource {}

/// Decoded spec.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    /// Version of the record that it was decoded from.
    pub(crate) version: u64,
    /// `None` for the replacement of an unreadable permission.
    pub(crate) spec: Option<Erased>,
    pub(crate) form: Form,
}

/// Additional form for kinds that several readers need.
#[derive(Debug, Clone)]
pub(crate) enum Form {
    Policy(Arc<Policy>),
    Proxy(Arc<Proxy>),
    Destination(Arc<Destination>),
    /// No additional form.
    Plain,
}

/// Error of an unreadable spec, and its replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    pub error: String,
    pub fallback: Fallback,
}

/// Replacement of an unreadable spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// Last readable version.
    LastReadable { version: u64 },
    /// Nothing: the resource has no effect.
    LeftOut,
    /// Permission that denies all requests to the proxies it targets.
    DenyAll,
}

impl Resource {
    /// Decodes a record without a previous version.
    pub fn decode(stored: Stored<'_>) -> Self {
        decode(stored, None)
    }

    /// Validated document, as it is decoded once it is stored.
    pub fn checked(checked: &Checked) -> Self {
        Self::decode(Stored {
            key: &ResourceKey::in_mesh(checked.kind.name, &checked.mesh, &checked.name),
            labels: &Arc::new(checked.labels.clone()),
            created: Timestamp::UNIX_EPOCH,
            version: 1,
            status_version: 0,
            revision: 0,
            spec: &checked.spec().into(),
            status: None,
        })
    }

    /// `None` when there is no readable version, and for the type of another kind.
    pub fn spec<S: Spec>(&self) -> Option<Arc<S>> {
        self.content.as_ref()?.spec.as_ref()?.get()
    }

    /// Empty when missing or unreadable, because statuses are recomputed.
    pub fn status<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.status.as_ref().and_then(Erased::get).unwrap_or_default()
    }

    /// `None` when it is unreadable.
    pub fn readable_status<T: Default + Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        match (self.status_version, &self.status) {
            (None, _) => Some(Arc::default()),
            (Some(_), status) => status.as_ref()?.get(),
        }
    }

    /// Internal record, of a kind that is not in the table; see [`crate::document`].
    pub fn document<T: DeserializeOwned>(&self) -> Option<T> {
        let document: Arc<Value> = self.content.as_ref()?.spec.as_ref()?.get()?;
        T::deserialize(&*document).ok()
    }

    pub fn policy(&self) -> Option<&Arc<Policy>> {
        match &self.content.as_ref()?.form {
            Form::Policy(policy) => Some(policy),
            Form::Proxy(_) | Form::Destination(_) | Form::Plain => None,
        }
    }

    pub fn proxy(&self) -> Option<&Arc<Proxy>> {
        match &self.content.as_ref()?.form {
            Form::Proxy(proxy) => Some(proxy),
            Form::Policy(_) | Form::Destination(_) | Form::Plain => None,
        }
    }

    pub fn destination(&self) -> Option<&Arc<Destination>> {
        match &self.content.as_ref()?.form {
            Form::Destination(destination) => Some(destination),
            Form::Policy(_) | Form::Proxy(_) | Form::Plain => None,
        }
    }

    /// Content of the last readable version.
    pub(crate) fn readable(&self) -> Option<&Content> {
        // A replacement is not a readable version.
        self.content.as_ref().filter(|content| content.spec.is_some())
    }

    /// The same unreadable resource with a readable version in use.
    pub(crate) fn standing_in(&self, last: &Content) -> Self {
        let fallback = Fallback::LastReadable { version: last.version };
        let error = self.unreadable.as_ref().map(|unreadable| unreadable.error.clone()).unwrap_or_default();
        Self { content: Some(last.clone()), unreadable: Some(Unreadable { error, fallback }), ..self.clone() }
    }

    pub fn unreadable(&self) -> Option<&Unreadable> {
        self.unreadable.as_ref()
    }

    /// Paths and reasons of regular expressions that Envoy cannot compile. They match nothing.
    pub fn invalid_regexes(&self) -> &[(String, String)] {
        &self.invalid_regexes
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { error, fallback } = self;
        write!(f, "cannot be read by this version ({error}); {fallback}")
    }
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LastReadable { version } => write!(f, "version {version}, the last readable one, stays in use"),
            Self::LeftOut => f.write_str("it has no effect until it is written again"),
            Self::DenyAll => f.write_str("all calls to the proxies it targets are denied until it is written again"),
        }
    }
}
