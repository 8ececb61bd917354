//! Configuration that may be in effect at a proxy: the callers that its inbounds admit, and the certificates that it presents.

use std::{hash::Hash, sync::Arc};

use jiff::Timestamp;
use kodiak_reachability::{Admission, Certificate};
use xxhash_rust::xxh3::Xxh3Default;

use crate::{
    acknowledged::{AcknowledgedState, PermissionsToken},
    history::{History, VersionId},
};

/// Address and port of an inbound.
pub(crate) type InboundKey = (Arc<str>, u32);
/// Admission of each inbound of a proxy.
pub(crate) type Inbounds = Arc<[(InboundKey, Admission)]>;
/// All that a proxy presents, or will present.
pub(crate) type Certificates = Arc<[Certificate]>;

pub(crate) struct InEffect {
    pub(crate) inbounds: History<Inbounds>,
    /// `None` until the proxy connects here.
    certificates: Option<History<Certificates>>,
    /// The token of its insight that was applied last.
    seen: Option<PermissionsToken>,
}

/// Time of a version.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// Of the store, which control planes share.
    pub(crate) revision: u64,
    pub(crate) now: Timestamp,
}

/// State of a proxy when it is seen first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    /// Whether it is connected to this control plane.
    pub(crate) is_here: bool,
    /// As its insight says.
    pub(crate) state: AcknowledgedState,
    pub(crate) before: Before,
}

/// Configuration of proxies before their first version here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// As their insight shows it: this control plane starts. Without a token it is unknown.
    Recorded,
    /// Nobody recorded it: clients had everything so far.
    Unknown,
    /// As their insight shows it. Without a token there is none: the proxy is new.
    Nothing,
}

impl Origin {
    /// Whether it is connected to a control plane.
    pub(crate) fn is_online(&self) -> bool {
        self.is_here || self.state.online
    }
}

impl InEffect {
    /// `may_run`: whether there may be a proxy. Otherwise the next one starts with the current state.
    pub(crate) fn new(inbounds: Inbounds, origin: Origin, may_run: bool, at: Moment) -> Self {
        let now = at.now;
        let fingerprint = of_inbounds(&inbounds);
        let id = |number| VersionId { number, fingerprint };
        let seen = origin.state.token;
        let next = id(at.revision.max(seen.map_or(0, |token| token.number.saturating_add(1))));
        let inbounds = match (seen, origin.before) {
            _ if !may_run => History::settled(next, inbounds, now),
            (_, Before::Unknown) => History::after_unknown(next, inbounds, now),
            // Sent again with a new number: others may have seen versions in between, and wait.
            (Some(token), _) if token.inbounds == fingerprint => History::settled(next, inbounds, now),
            (Some(_), _) => History::after_unknown(next, inbounds, now),
            (None, Before::Nothing) if !origin.state.has_run => History::first(next, inbounds, now),
            (None, Before::Recorded) if origin.state.has_run => History::after_unknown(next, inbounds, now),
            (None, _) => History::settled(next, inbounds, now),
        };
        Self { inbounds, certificates: None, seen }
    }

    /// Returns whether that is another version. If it is not, it may have been for a moment. This control plane sent none then,
    /// but others wait for one: with `is_touched`, the proxy acknowledges it again.
    pub(crate) fn set_inbounds(&mut self, inbounds: Inbounds, may_run: bool, is_touched: bool, at: Moment) -> bool {
        let now = at.now;
        let id = VersionId { number: self.next_number(at), fingerprint: of_inbounds(&inbounds) };
        if self.inbounds.newest().fingerprint == id.fingerprint {
            if is_touched {
                self.inbounds.renumber(id.number);
            }
            return false;
        }
        if may_run {
            self.inbounds.push(id, inbounds, now);
        } else {
            self.inbounds = History::settled(id, inbounds, now);
        }
        true
    }

    pub(crate) fn set_certificates(&mut self, certificates: Certificates, state: AcknowledgedState, at: Moment) {
        let now = at.now;
        let fingerprint = of_certificates(&certificates);
        let id = VersionId { number: self.next_number(at), fingerprint };
        match &mut self.certificates {
            Some(history) if history.newest().fingerprint == fingerprint => (),
            Some(history) => history.push(id, certificates, now),
            None => {
                let history = match state.token {
                    Some(token) if token.certificates != fingerprint && token.certificates != 0 => {
                        History::after_unknown(id, certificates, now)
                    }
                    _ => History::settled(VersionId { number: 0, fingerprint }, certificates, now),
                };
                self.certificates = Some(history);
            }
        }
    }

    /// All certificates that the proxy may present. `None` if some are unknown.
    pub(crate) fn certificates(&self) -> Option<Vec<Certificate>> {
        let mut all: Vec<Certificate> = Vec::new();
        for certificates in self.certificates.iter().flat_map(History::possible) {
            for certificate in &**certificates? {
                if !all.contains(certificate) {
                    all.push(certificate.clone());
                }
            }
        }
        Some(all)
    }

    /// Returns whether its inbounds, and whether its certificates, may be others now.
    pub(crate) fn acknowledge(&mut self, token: PermissionsToken, now: Timestamp) -> (bool, bool) {
        // It may name a version that was sent again since.
        if self.seen == Some(token) {
            return (false, false);
        }
        self.seen = Some(token);
        let PermissionsToken { number, inbounds, certificates } = token;
        let are_inbounds = self.inbounds.acknowledge(VersionId { number, fingerprint: inbounds }, now);
        let id = VersionId { number, fingerprint: certificates };
        // Sent by a control plane that it is not connected to any more.
        let known = self.certificates.as_mut().filter(|_| certificates != 0);
        (are_inbounds, known.is_some_and(|history| history.acknowledge(id, now)))
    }

    /// Of the newest versions.
    pub(crate) fn token(&self) -> PermissionsToken {
        let (inbounds, certificates) = (self.inbounds.newest(), self.certificates.as_ref().map(History::newest));
        PermissionsToken {
            number: inbounds.number.max(certificates.map_or(0, |newest| newest.number)),
            inbounds: inbounds.fingerprint,
            certificates: certificates.map_or(0, |newest| newest.fingerprint),
        }
    }

    fn next_number(&self, at: Moment) -> u64 {
        // Not every version follows from a change of the store.
        at.revision.max(self.token().number.saturating_add(1))
    }
}

fn of_inbounds(inbounds: &Inbounds) -> u64 {
    let mut hasher = Xxh3Default::new();
    for (key, admission) in &**inbounds {
        key.hash(&mut hasher);
        match admission {
            Admission::Open => None,
            Admission::By(all) => Some(all),
        }
        .hash(&mut hasher);
    }
    hasher.digest()
}

fn of_certificates(certificates: &Certificates) -> u64 {
    let mut hasher = Xxh3Default::new();
    certificates.hash(&mut hasher);
    hasher.digest()
}
