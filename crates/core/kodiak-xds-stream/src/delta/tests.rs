//! Edge cases of the incremental protocol.

use super::*;
use crate::stream::Event;
use crate::testing::{CDS, EDS, LDS, RDS, SDS, delta, delta_request};
use crate::type_url::Requested;

#[test]
fn empty_first_subscribe_is_a_wildcard_and_is_answered_even_without_resources() {
    assert_eq!(delta().with("cds a1 b1").ask(CDS, ""), "cds a1 b1");
    assert_eq!(delta().with("").ask(LDS, ""), "lds");
}

#[test]
fn empty_first_subscribe_is_no_wildcard_for_named_types() {
    assert_eq!(delta().with("eds a1").ask(EDS, ""), "eds");
}

#[test]
fn a_star_is_a_wildcard_for_every_type() {
    assert_eq!(delta().with("sds a1").ask(SDS, "*"), "sds a1");
}

#[test]
fn a_request_before_the_first_snapshot_is_answered_with_it() {
    let mut peer = delta();
    assert_eq!(peer.ask(CDS, ""), "");
    assert_eq!(peer.snapshot(""), "cds");
}

#[test]
fn later_empty_request_subscribes_to_nothing() {
    let mut peer = delta().with("cds a1 b1");
    assert_eq!(peer.ask(CDS, "a"), "cds a1");
    assert_eq!(peer.ask(CDS, ""), "");
    peer.ack(CDS);
    assert_eq!(peer.snapshot("cds a1 b2"), "");
}

#[test]
fn names_beside_a_wildcard_are_answered_and_the_wildcard_stays() {
    let mut peer = delta().with("cds a1 b1");
    peer.ask(CDS, "");
    assert_eq!(peer.ask(CDS, "a x"), "cds a1 -x");
    peer.ack(CDS);
    assert_eq!(peer.snapshot("cds a1 b2"), "cds b2");
}

#[test]
fn after_unsubscribing_the_wildcard_only_names_apply() {
    let mut peer = delta().with("cds a1 b1");
    peer.ask(CDS, "* a");
    peer.ack(CDS);
    assert_eq!(peer.ask(CDS, "-*"), "");
    assert_eq!(peer.snapshot("cds a2 b2"), "cds a2");
}

#[test]
fn wildcard_subscribed_again_gets_everything_again() {
    let mut peer = delta().with("cds a1 b1");
    peer.ask(CDS, "*");
    peer.ask(CDS, "-*");
    assert_eq!(peer.ask(CDS, "*"), "cds a1 b1");
}

#[test]
fn wildcard_removes_dropped_names_that_may_be_in_flight() {
    let mut peer = delta().with("lds a1");
    assert_eq!(peer.ask(LDS, "a"), "lds a1");
    peer.ask(LDS, "-a");
    peer.snapshot("");
    assert_eq!(peer.ask(LDS, "*"), "lds -a");
}

#[test]
fn unsubscribe_under_a_wildcard_gets_the_wildcards_state() {
    let mut peer = delta().with("cds a1");
    peer.ask(CDS, "* a x");
    assert_eq!(peer.ask(CDS, "-a -x"), "cds a1 -x");
}

#[test]
fn unsubscribe_stops_updates_without_an_answer() {
    let mut peer = delta().with("eds a1 b1");
    peer.ask(EDS, "a b");
    peer.ack(EDS);
    assert_eq!(peer.ask(EDS, "-a"), "");
    assert_eq!(peer.snapshot("eds a2 b2"), "eds b2");
}

#[test]
fn subscribing_again_sends_again() {
    let mut peer = delta().with("eds a1");
    peer.ask(EDS, "a");
    assert_eq!(peer.ask(EDS, "a"), "eds a1");
}

#[test]
fn missing_name_is_reported_once_and_sent_when_it_exists() {
    let mut peer = delta().with("");
    assert_eq!(peer.ask(RDS, "r"), "rds -r");
    peer.ack(RDS);
    assert_eq!(peer.snapshot("cds a1"), "");
    assert_eq!(peer.snapshot("rds r1"), "rds r1");
    peer.ack(RDS);
    assert_eq!(peer.snapshot(""), "rds -r");
}

#[test]
fn resume_sends_only_what_differs() {
    assert_eq!(delta().with("cds a1 b1").ask(CDS, "a@1 b@1"), "");
    assert_eq!(delta().with("lds a1 b2 d1").ask(LDS, "a@1 b@1 c@1"), "lds b2 d1 -c");
    assert_eq!(delta().with("eds a1 b1").ask(EDS, "a b c a@1 b@foreign"), "eds b1 -c");
}

#[test]
fn resume_with_a_star_resends_nothing() {
    assert_eq!(delta().with("cds a1").ask(CDS, "* a@1"), "");
}

#[test]
fn resume_ignores_names_that_are_no_longer_subscribed() {
    assert_eq!(delta().with("eds a1").ask(EDS, "a a@1 z@1"), "");
}

#[test]
fn versions_from_an_earlier_stream_count_in_the_first_request_alone() {
    let mut peer = delta().with("eds a1 b1");
    peer.ask(EDS, "a");
    assert_eq!(peer.ask(EDS, "b b@1"), "eds b1");
}

#[test]
fn a_rejected_version_is_not_sent_again_but_the_next_one_is() {
    let mut peer = delta().with("lds a1 b1");
    peer.ask(LDS, "");
    assert_eq!(peer.nack(LDS, "bad address"), "");
    assert_eq!(peer.snapshot("lds a1 b2"), "lds b2");
    peer.ack(LDS);
    assert_eq!(peer.snapshot("lds a2 b2"), "lds a2");
    assert_eq!(peer.stream.counters(LDS).last_error.as_deref(), Some("bad address"));
}

#[test]
fn reverting_after_a_rejection_is_a_change() {
    let mut peer = delta().with("lds a1");
    peer.ask(LDS, "");
    peer.ack(LDS);
    assert_eq!(peer.snapshot("lds a2"), "lds a2");
    peer.nack(LDS, "no");
    assert_eq!(peer.snapshot("lds a1"), "lds a1");
}

#[test]
fn stale_or_foreign_nonce_acks_nothing_but_its_names_apply() {
    let mut peer = delta().with("eds a1 b1");
    peer.ask(EDS, "a");
    let old = Some(peer.nonce(EDS));
    peer.ack(EDS);
    let again = Request { nonce: old, error: Some("late".into()), ..delta_request("b") };
    assert_eq!(peer.request(EDS, again), "eds b1");
    let foreign = Request { nonce: Nonce::from_wire("?"), ..Request::default() };
    assert_eq!(peer.request(EDS, foreign), "");
    let counters = peer.stream.counters(EDS);
    assert_eq!((counters.sent, counters.acknowledged, counters.rejected), (2, 1, 0));
}

#[test]
fn nonce_of_another_type_acks_nothing() {
    let mut peer = delta().with("cds a1 / eds a1");
    peer.ask(CDS, "");
    peer.ask(EDS, "a");
    let nonce = Some(peer.nonce(EDS));
    peer.request(CDS, Request { nonce, ..Request::default() });
    assert_eq!(peer.stream.counters(CDS).acknowledged, 0);
}

#[test]
fn an_unanswered_push_is_followed_by_one_difference() {
    let mut peer = delta().with("sds a1");
    peer.ask(SDS, "a b");
    assert_eq!(peer.snapshot("sds a2"), "");
    assert_eq!(peer.snapshot("sds a3 b1"), "");
    assert_eq!(peer.ack(SDS), "sds a3 b1");
}

#[test]
fn unknown_types_are_answered_and_their_acknowledgements_are_not() {
    let mut peer = delta();
    let mut ask = |request| peer.on(Event::Request(Requested::from_wire("x.y/Z"), request));
    assert_eq!(ask(delta_request("")), "x.y/Z");
    assert_eq!(ask(delta_request("a *")), "x.y/Z -a");
    assert_eq!(ask(Request { nonce: Some(Nonce(1)), ..Request::default() }), "");
}
