//! Edge cases of the state-of-the-world protocol.

use super::*;
use crate::stream::Event;
use crate::testing::{CDS, EDS, LDS, RDS, sotw};
use crate::type_url::Requested;

#[test]
fn empty_first_request_means_all_clusters_and_listeners_but_no_endpoints() {
    assert_eq!(sotw().with("cds a1 b1").ask(CDS, ""), "cds a1 b1");
    assert_eq!(sotw().with("").ask(LDS, ""), "lds");
    assert_eq!(sotw().with("eds a1").ask(EDS, ""), "eds");
}

#[test]
fn empty_request_after_names_means_nothing() {
    let mut peer = sotw().with("cds a1 b1");
    assert_eq!(peer.ask(CDS, "a"), "cds a1");
    assert_eq!(peer.ask(CDS, ""), "");
    assert_eq!(peer.snapshot("cds a2 b2"), "");
}

#[test]
fn change_of_listeners_sends_the_full_set_and_omission_removes() {
    let mut peer = sotw().with("lds a1 b1 c1");
    peer.ask(LDS, "");
    peer.ack(LDS);
    assert_eq!(peer.snapshot("lds a1 b2"), "lds a1 b2");
}

#[test]
fn change_sends_only_the_changed_endpoints() {
    let mut peer = sotw().with("eds a1 b1 c1");
    assert_eq!(peer.ask(EDS, "a b"), "eds a1 b1");
    peer.ack(EDS);
    assert_eq!(peer.snapshot("eds a1 b2 c2"), "eds b2");
    peer.ack(EDS);
    assert_eq!(peer.snapshot("eds a1"), "");
}

#[test]
fn added_names_are_answered_and_dropped_ones_are_not() {
    let mut peer = sotw().with("rds a1 b1");
    peer.ask(RDS, "a");
    assert_eq!(peer.ask(RDS, "a b"), "rds b1");
    assert_eq!(peer.ask(RDS, "b"), "");
    assert_eq!(peer.ask(RDS, "b x"), "rds");
    peer.ack(RDS);
    assert_eq!(peer.snapshot("rds a2 b1 x1"), "rds x1");
}

#[test]
fn added_names_of_listeners_get_the_full_set() {
    let mut peer = sotw().with("lds a1 b1 c1");
    peer.ask(LDS, "a");
    assert_eq!(peer.ask(LDS, "a b"), "lds a1 b1");
    assert_eq!(peer.ask(LDS, "*"), "lds a1 b1 c1");
}

#[test]
fn a_request_with_a_stale_nonce_is_ignored() {
    let mut peer = sotw().with("rds a1 b1");
    peer.ask(RDS, "a");
    let stale = Request { names: vec!["b".into()], nonce: Nonce::from_wire("77"), ..Request::default() };
    assert_eq!(peer.request(RDS, stale), "");
    assert_eq!(peer.stream.counters(RDS).acknowledged, 0);
}

#[test]
fn request_without_a_nonce_starts_again() {
    let mut peer = sotw().with("rds a1 b1");
    peer.ask(RDS, "a");
    let again = Request { names: vec!["a".into(), "b".into()], ..Request::default() };
    assert_eq!(peer.request(RDS, again), "rds a1 b1");
    peer.ack(RDS);
    let counters = peer.stream.counters(RDS);
    assert_eq!((counters.sent, counters.acknowledged), (2, 2), "the answer covers the first response, too");
}

#[test]
fn a_rejected_set_is_not_sent_again_until_it_changes() {
    let mut peer = sotw().with("lds a1 b1");
    peer.ask(LDS, "");
    assert_eq!(peer.nack(LDS, "bad"), "");
    assert_eq!(peer.snapshot("lds a1 b1 / rds x1"), "");
    assert_eq!(peer.snapshot("lds a2 b1"), "lds a2 b1");
    peer.ack(LDS);
    let counters = peer.stream.counters(LDS);
    assert_eq!((counters.sent, counters.acknowledged, counters.rejected), (2, 1, 1));
}

#[test]
fn dropping_names_after_a_rejection_is_answered_with_the_set() {
    let mut peer = sotw().with("lds d1");
    peer.ask(LDS, "* d");
    peer.ack(LDS);
    assert_eq!(peer.snapshot("lds a1"), "lds a1");
    peer.nack(LDS, "bad");
    let (names, nonce) = (vec!["d".into()], Some(peer.nonce(LDS)));
    assert_eq!(peer.request(LDS, Request { names, nonce, ..Request::default() }), "lds");
}

#[test]
fn older_version_with_the_last_nonce_is_a_rejection_without_error() {
    let mut peer = sotw().with("lds a1");
    peer.ask(LDS, "");
    let nonce = Some(peer.nonce(LDS));
    peer.request(LDS, Request { nonce, ..Request::default() });
    assert_eq!(peer.stream.counters(LDS).last_error.as_deref(), Some("rejected without a message"));
}

#[test]
fn resume_with_the_version_of_a_full_set_sends_nothing() {
    let mut before = sotw().with("lds a1 b1");
    before.ask(LDS, "");
    let mut peer = sotw().with("lds a1 b1");
    assert_eq!(peer.resume(LDS, "", before.version(LDS)), "");
    assert_eq!(peer.snapshot("lds a2 b1"), "lds a2 b1");
}

#[test]
fn resume_of_names_sends_them_because_the_version_may_be_older_than_the_names() {
    let mut before = sotw().with("eds a1");
    before.ask(EDS, "a");
    assert_eq!(sotw().with("eds a1").resume(EDS, "a", before.version(EDS)), "eds a1");
}

#[test]
fn a_client_that_resumed_and_was_sent_nothing_adds_names() {
    let mut before = sotw().with("cds a1");
    before.ask(CDS, "");
    let mut peer = sotw().with("cds a1");
    assert_eq!(peer.resume(CDS, "", before.version(CDS)), "");
    assert_eq!(peer.ask(CDS, "* a"), "cds a1");
}

#[test]
fn resume_with_another_version_sends_all() {
    assert_eq!(sotw().with("cds a1 b1").resume(CDS, "", Version(7)), "cds a1 b1");
    assert_eq!(sotw().with("").resume(EDS, "a", Version(7)), "eds");
}

#[test]
fn version_is_a_hash_of_the_clients_resources() {
    let mut one = sotw().with("eds a1 b1");
    one.ask(EDS, "a");
    one.ask(EDS, "a b");
    let mut other = sotw().with("eds a1 b1");
    other.ask(EDS, "b a");
    assert_eq!(one.version(EDS), other.version(EDS));
}

#[test]
fn unknown_types_are_answered_once() {
    let mut peer = sotw();
    let mut ask = |request| peer.on(Event::Request(Requested::from_wire("x.y/Z"), request));
    assert_eq!(ask(Request { names: vec!["a".into()], ..Request::default() }), "x.y/Z");
    assert_eq!(ask(Request { nonce: Some(Nonce(1)), ..Request::default() }), "");
}
