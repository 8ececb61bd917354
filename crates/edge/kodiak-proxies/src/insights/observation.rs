//! State of one stream, as the insight of its proxy shows it.

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_model::{
    ProxyKey,
    kinds::dataplane_insight::{DataplaneInsight, MtlsInsight},
    proto_json::Counter,
    subscription::{Responses, Subscription, SubscriptionStatus},
};
use kodiak_xds_stream::TypeUrl;
use serde_json::Value;
use tokio::time::Instant;

use crate::sessions::{Reported, TypeStatus};

/// Everything that the insight shows of one stream.
#[derive(Clone)]
pub(crate) struct Observation {
    pub(super) key: ProxyKey,
    pub(super) subscription: Subscription,
    pub(super) metadata: Option<Value>,
    pub(super) certificate: Option<MtlsInsight>,
    /// When the certificate was sent first.
    pub(super) issued: Option<Timestamp>,
    pub(super) acknowledged: Option<Arc<str>>,
    /// Permissions and certificates that the proxy acknowledged; empty if they are not recorded.
    pub(super) permissions: Option<Arc<str>>,
    /// Why the proxy does not acknowledge a step of an mTLS rollout; empty for nothing.
    pub(super) rejecting: String,
    pub(super) due: Due,
    /// Grows with every change, so that a change during a write does not count as written.
    pub(super) changes: u64,
    pub(super) written: Option<Instant>,
}

/// When to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Never,
    /// Once `insight_interval` has passed since the last write.
    Later,
    Now,
}

impl Observation {
    pub(crate) fn new(key: ProxyKey, subscription: Subscription, metadata: Option<Value>) -> Self {
        Self {
            key,
            subscription,
            metadata,
            certificate: None,
            issued: None,
            acknowledged: None,
            permissions: None,
            rejecting: String::new(),
            due: Due::Now,
            changes: 0,
            written: None,
        }
    }

    /// Returns whether it is to be written at once.
    pub(super) fn report(&mut self, reported: &Reported, now: Timestamp) -> bool {
        if let Some(types) = &reported.types {
            self.count(types, now);
            self.change(Due::Later);
        }
        let mut now = false;
        if let Some(rejecting) = reported.rejecting.as_ref().filter(|rejecting| **rejecting != self.rejecting) {
            self.rejecting.clone_from(rejecting);
            now = true;
        }
        if reported.acknowledged.is_some() && self.acknowledged != reported.acknowledged {
            self.acknowledged.clone_from(&reported.acknowledged);
            now = true;
        }
        if reported.permissions.is_some() && self.permissions != reported.permissions {
            self.permissions.clone_from(&reported.permissions);
            now = true;
        }
        if now {
            self.change(Due::Now);
        }
        now
    }

    pub(super) fn issue(&mut self, certificate: MtlsInsight, now: Timestamp) {
        if self.certificate.as_ref() != Some(&certificate) {
            if self.certificate.as_ref().is_none_or(|known| known.serial_number != certificate.serial_number) {
                self.issued = Some(now);
            }
            self.certificate = Some(certificate);
            self.change(Due::Later);
        }
    }

    pub(super) fn beat(&mut self) {
        if !self.is_closed() {
            self.subscription.generation = self.subscription.generation.wrapping_add(1);
            self.change(Due::Now);
        }
    }

    pub(super) fn close(&mut self, now: Timestamp) {
        self.subscription.disconnect_time = Some(now.to_string());
        self.change(Due::Now);
    }

    fn change(&mut self, due: Due) {
        self.changes += 1;
        self.due = self.due.max(due);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.subscription.disconnect_time.is_some()
    }

    pub(crate) fn count(&mut self, types: &[TypeStatus], now: Timestamp) {
        let mut status = SubscriptionStatus { last_update_time: Some(now.to_string()), ..Default::default() };
        for of_type in types {
            add(&mut status.total, of_type);
            match of_type.type_url {
                TypeUrl::Cluster => add(&mut status.cds, of_type),
                TypeUrl::Endpoint => add(&mut status.eds, of_type),
                TypeUrl::Listener => add(&mut status.lds, of_type),
                TypeUrl::Route => add(&mut status.rds, of_type),
                TypeUrl::Secret => (),
            }
        }
        self.subscription.status = status;
    }

    /// Merges it into the insight, next to the connections that other control planes wrote.
    pub(super) fn apply(&self, insight: &mut DataplaneInsight, limit: usize) {
        let own = insight.subscriptions.iter().position(|known| known.id == self.subscription.id);
        match own {
            Some(index) if index + 1 == insight.subscriptions.len() => {
                insight.subscriptions[index] = self.subscription.clone();
            }
            // The proxy has a newer connection, whose control plane has closed this one. That stays.
            Some(index) => {
                let closed = insight.subscriptions[index].disconnect_time.take();
                insight.subscriptions[index] = self.subscription.clone();
                insight.subscriptions[index].disconnect_time = closed.or(self.subscription.disconnect_time.clone());
                return;
            }
            // Newer connections have pushed it out.
            None if self.written.is_some() && (self.is_closed() || insight.is_online()) => return,
            None => {
                for older in insight.subscriptions.iter_mut().filter(|older| older.is_open()) {
                    older.disconnect_time.clone_from(&self.subscription.connect_time);
                }
                insight.subscriptions.push(self.subscription.clone());
                let forgotten = insight.subscriptions.len().saturating_sub(limit.max(1));
                insight.subscriptions.drain(..forgotten);
            }
        }
        insight.metadata.clone_from(&self.metadata);
        self.apply_certificate(&mut insight.mtls);
    }

    fn apply_certificate(&self, mtls: &mut Option<MtlsInsight>) {
        let stored = mtls.take().unwrap_or_default();
        let acknowledged = self.acknowledged.as_deref().unwrap_or(&stored.acknowledged).to_owned();
        let acknowledged_permissions =
            self.permissions.as_deref().unwrap_or(&stored.acknowledged_permissions).to_owned();
        let certificate = match self.certificate.clone() {
            Some(certificate) => self.counted(certificate, stored),
            None => stored,
        };
        let rejecting = self.rejecting.clone();
        let next = MtlsInsight { acknowledged, acknowledged_permissions, rejecting, ..certificate };
        *mtls = (next != MtlsInsight::default()).then_some(next);
    }

    /// The certificate with the number of certificates that the proxy had, and when it got this one.
    fn counted(&self, certificate: MtlsInsight, stored: MtlsInsight) -> MtlsInsight {
        if certificate.serial_number.is_empty() && !certificate.renewal_error.is_empty() {
            // None could be issued, so the proxy keeps the one that it has.
            return MtlsInsight { renewal_error: certificate.renewal_error, ..stored };
        }
        let is_new = !certificate.serial_number.is_empty() && certificate.serial_number != stored.serial_number;
        let issued = self.issued.filter(|_| is_new).map(|issued| issued.to_string());
        MtlsInsight {
            last_certificate_regeneration: issued.or(stored.last_certificate_regeneration),
            certificate_regenerations: stored.certificate_regenerations.saturating_add(u32::from(is_new)),
            ..certificate
        }
    }
}

fn add(responses: &mut Responses, of_type: &TypeStatus) {
    let add = |counter: &mut Counter, count: u64| *counter = Counter(counter.0.saturating_add(count));
    add(&mut responses.responses_sent, of_type.sent);
    add(&mut responses.responses_acknowledged, of_type.acknowledged);
    add(&mut responses.responses_rejected, of_type.rejected);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(id: &str, disconnected: Option<&str>) -> Subscription {
        Subscription {
            id: id.to_owned(),
            connect_time: Some(format!("{id} came")),
            disconnect_time: disconnected.map(str::to_owned),
            ..Subscription::default()
        }
    }

    fn observation(id: &str, disconnected: Option<&str>, written: bool) -> Observation {
        let observation = Observation::new(ProxyKey::new("default", "web"), subscription(id, disconnected), None);
        Observation { written: written.then(Instant::now), ..observation }
    }

    #[track_caller]
    fn check(stored: &[(&str, Option<&str>)], observed: &Observation, expected: &[(&str, Option<&str>)]) {
        let subscriptions = stored.iter().map(|(id, disconnected)| subscription(id, *disconnected)).collect();
        let mut insight = DataplaneInsight { subscriptions, ..DataplaneInsight::default() };
        observed.apply(&mut insight, 2);
        let found: Vec<_> =
            insight.subscriptions.iter().map(|known| (known.id.as_str(), known.disconnect_time.as_deref())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn new_connection_closes_the_older_and_removes_the_oldest() {
        check(&[], &observation("a", None, false), &[("a", None)]);
        check(&[("a", None)], &observation("b", None, false), &[("a", Some("b came")), ("b", None)]);
        let stored = [("a", Some("x")), ("b", None)];
        check(&stored, &observation("c", None, false), &[("b", Some("c came")), ("c", None)]);
    }

    #[test]
    fn replaced_connection_stays_closed() {
        let stored = [("a", Some("b came")), ("b", None)];
        check(&stored, &observation("a", None, true), &stored);
        check(&stored, &observation("a", Some("late"), true), &stored);
        check(&[("b", None), ("c", None)], &observation("a", None, true), &[("b", None), ("c", None)]);
    }

    #[test]
    fn connection_closed_as_idle_is_reopened() {
        check(&[("a", Some("idle"))], &observation("a", None, true), &[("a", None)]);
        check(&[], &observation("a", None, true), &[("a", None)]);
        check(&[], &observation("a", Some("gone"), true), &[]);
    }

    #[test]
    fn certificate_and_acknowledged_step_are_independent() {
        let mut insight = DataplaneInsight::default();
        let mut observed = observation("a", None, false);
        observed.apply(&mut insight, 2);
        assert_eq!(insight.mtls, None);
        observed.acknowledged = Some("step-1".into());
        observed.apply(&mut insight, 2);
        let certificate = MtlsInsight { issued_backend: "ca-1".to_owned(), ..MtlsInsight::default() };
        observed.certificate = Some(certificate.clone());
        observed.acknowledged = None;
        observed.apply(&mut insight, 2);
        assert_eq!(insight.mtls, Some(MtlsInsight { acknowledged: "step-1".to_owned(), ..certificate }));
    }

    #[test]
    fn certificate_that_cannot_be_issued_leaves_the_one_before() {
        let old = MtlsInsight {
            issued_backend: "ca-1".to_owned(),
            serial_number: "01".to_owned(),
            certificate_expiration_time: Some("2026-01-01T00:00:00Z".to_owned()),
            ..MtlsInsight::default()
        };
        let mut insight = DataplaneInsight { mtls: Some(old.clone()), ..DataplaneInsight::default() };
        let mut observed = observation("a", None, false);
        let renewal_error = "the CA expired".to_owned();
        observed.certificate = Some(MtlsInsight {
            issued_backend: "ca-1".to_owned(),
            renewal_error: renewal_error.clone(),
            ..MtlsInsight::default()
        });
        observed.apply(&mut insight, 2);
        assert_eq!(insight.mtls, Some(MtlsInsight { renewal_error, ..old }));
    }

    #[test]
    fn certificates_of_a_proxy_are_counted() {
        let certificate = |serial: &str| MtlsInsight { serial_number: serial.to_owned(), ..MtlsInsight::default() };
        let counted = |insight: &DataplaneInsight| {
            let mtls = insight.mtls.clone().unwrap();
            (mtls.certificate_regenerations, mtls.last_certificate_regeneration.unwrap())
        };
        let (early, late) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(60).unwrap());
        let mut insight = DataplaneInsight::default();
        let mut observed = observation("a", None, false);
        observed.issue(certificate("01"), early);
        observed.apply(&mut insight, 2);
        observed.issue(certificate("01"), late);
        observed.apply(&mut insight, 2);
        assert_eq!(counted(&insight), (1, early.to_string()));
        let mut reconnected = observation("b", None, false);
        reconnected.issue(certificate("01"), late);
        reconnected.apply(&mut insight, 2);
        assert_eq!(counted(&insight), (1, early.to_string()), "the same certificate");
        reconnected.issue(certificate("02"), late);
        reconnected.apply(&mut insight, 2);
        assert_eq!(counted(&insight), (2, late.to_string()));
    }
}
