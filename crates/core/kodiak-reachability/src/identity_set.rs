//! Set of identities: some, or all but some.

use std::sync::Arc;

use roaring::RoaringBitmap;

use crate::IdentityId;

/// An identity that joins later is in every [`AllBut`](Self::AllBut), and in no [`Only`](Self::Only).
#[derive(Debug, Clone, PartialEq)]
pub enum IdentitySet {
    Only(Arc<RoaringBitmap>),
    AllBut(Arc<RoaringBitmap>),
}

impl IdentitySet {
    pub fn nobody() -> Self {
        Self::Only(Arc::default())
    }

    pub fn everybody() -> Self {
        Self::AllBut(Arc::default())
    }

    pub fn contains(&self, id: IdentityId) -> bool {
        match self {
            Self::Only(some) => some.contains(id.0),
            Self::AllBut(some) => !some.contains(id.0),
        }
    }

    pub fn union(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Only(a), Self::Only(b)) if a.is_empty() => Self::Only(b.clone()),
            (Self::Only(a), Self::Only(b)) if b.is_empty() => Self::Only(a.clone()),
            (Self::Only(a), Self::Only(b)) => Self::Only(Arc::new(&**a | &**b)),
            (Self::Only(a), Self::AllBut(b)) | (Self::AllBut(b), Self::Only(a)) => Self::AllBut(Arc::new(&**b - &**a)),
            (Self::AllBut(a), Self::AllBut(b)) => Self::AllBut(Arc::new(&**a & &**b)),
        }
    }

    pub fn complement(&self) -> Self {
        match self {
            Self::Only(some) => Self::AllBut(some.clone()),
            Self::AllBut(some) => Self::Only(some.clone()),
        }
    }

    pub fn intersection(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::AllBut(a), other) | (other, Self::AllBut(a)) if a.is_empty() => other.clone(),
            (Self::Only(a), Self::Only(b)) => Self::Only(Arc::new(&**a & &**b)),
            (Self::Only(a), Self::AllBut(b)) | (Self::AllBut(b), Self::Only(a)) => Self::Only(Arc::new(&**a - &**b)),
            (Self::AllBut(a), Self::AllBut(b)) => Self::AllBut(Arc::new(&**a | &**b)),
        }
    }

    pub fn difference(&self, other: &Self) -> Self {
        match other {
            Self::Only(some) if some.is_empty() => self.clone(),
            other => self.intersection(&other.complement()),
        }
    }

    /// Identities that are in one of both sets alone.
    pub fn symmetric_difference(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Only(a), Self::Only(b)) | (Self::AllBut(a), Self::AllBut(b)) => Self::Only(Arc::new(&**a ^ &**b)),
            (Self::Only(a), Self::AllBut(b)) | (Self::AllBut(b), Self::Only(a)) => Self::AllBut(Arc::new(&**a ^ &**b)),
        }
    }

    /// Adds or removes one identity.
    pub(crate) fn set(&mut self, id: IdentityId, member: bool) {
        let (some, listed) = match self {
            Self::Only(some) => (some, member),
            Self::AllBut(some) => (some, !member),
        };
        if some.contains(id.0) == listed {
            return;
        }
        if listed {
            Arc::make_mut(some).insert(id.0);
        } else {
            Arc::make_mut(some).remove(id.0);
        }
    }

    /// Bytes in memory, about.
    pub fn bytes(&self) -> usize {
        let (Self::Only(some) | Self::AllBut(some)) = self;
        some.serialized_size()
    }
}
