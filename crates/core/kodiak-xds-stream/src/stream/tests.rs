//! The order between types.

use super::*;
use crate::testing::{CDS, EDS, LDS, RDS, SDS, delta, resource, sotw};
use crate::{delta as incremental, sotw as whole};

/// A delta client that has and acknowledged all of `text`.
fn settled(text: &str) -> crate::testing::Peer<incremental::Subscription> {
    let mut peer = delta().with(text);
    for (type_url, names) in [(CDS, ""), (EDS, "a b"), (LDS, ""), (RDS, "r"), (SDS, "s")] {
        assert_ne!(peer.ask(type_url, names), "");
        peer.ack(type_url);
    }
    assert!(peer.stream.is_settled());
    peer
}

#[test]
fn listeners_and_routes_wait_until_their_clusters_and_endpoints_are_acknowledged() {
    let mut peer = settled("cds a1 / eds a1 / lds l1>a / rds r1>a / sds s1");
    let next = "cds a1 b1 / eds a2 b1 / lds l2>a>b / rds r2>b / sds s2";
    assert_eq!(peer.snapshot(next), "sds s2 / cds b1 / eds a2 b1");
    assert_eq!(peer.ack(CDS), "");
    assert_eq!(peer.ack(SDS), "");
    assert_eq!(peer.ack(EDS), "lds l2 / rds r2");
}

#[test]
fn endpoints_wait_until_changed_secrets_of_their_cluster_were_sent() {
    let mut peer = settled("cds a1>s b1 / eds a1 b1 / sds s1");
    assert_eq!(peer.snapshot("cds a1>s b1 / eds a1 b1 / sds s2"), "sds s2");
    let next = "cds a1>s b1 / eds a2 b2 / sds s3";
    assert_eq!(peer.snapshot(next), "eds b2", "a client does not expect the new endpoint of a yet");
    peer.ack(EDS);
    assert_eq!(peer.ack(SDS), "sds s3 / eds a2");
}

#[test]
fn client_that_acked_a_listener_may_still_await_its_secrets() {
    let mut peer = delta().with("lds l1 / sds s1");
    peer.ask(LDS, "");
    peer.ack(LDS);
    assert!(peer.stream.is_settled() && peer.stream.lacks_secrets());
    peer.ask(SDS, "s");
    assert!(!peer.stream.is_settled() && !peer.stream.lacks_secrets());
    peer.ack(SDS);
    assert!(peer.stream.is_settled() && !peer.stream.lacks_secrets());
}

#[test]
fn removals_are_sent_in_reverse_order() {
    let mut peer = settled("cds a1 b1>s / eds a1 b1 / lds l1>a m1>b / rds r1>b / sds s1");
    assert_eq!(peer.snapshot("cds a1 / eds a1 / lds l2>a / rds r2>a"), "lds l2 -m / rds r2");
    assert_eq!(peer.ack(LDS), "");
    assert_eq!(peer.ack(RDS), "cds -b");
    assert_eq!(peer.ack(CDS), "eds -b / sds -s");
    peer.ack(SDS);
    peer.ack(EDS);
    assert!(peer.stream.is_settled());
}

#[test]
fn a_cluster_is_added_before_and_removed_after_its_listeners() {
    let mut peer = settled("cds a1 / eds a1 / lds l1>a");
    assert_eq!(peer.snapshot("cds b1 / eds b1 / lds l2>b"), "cds b1 / eds b1");
    peer.ack(EDS);
    assert_eq!(peer.ack(CDS), "lds l2");
    assert_eq!(peer.ack(LDS), "cds -a");
    assert_eq!(peer.ack(CDS), "eds -a");
}

#[test]
fn slow_cluster_holds_up_only_what_refers_to_it() {
    let mut peer = settled("cds a1 / eds a1 / lds i1 l1>a");
    assert_eq!(peer.snapshot("cds a1 b1 / eds a1 b1 / lds i1 l1>a m1>b"), "cds b1 / eds b1");
    peer.ack(EDS);
    // The cluster b does not get warm.
    assert_eq!(peer.snapshot("cds a1 b1 / eds a2 b1 / lds i2 l1>a m1>b"), "eds a2 / lds i2");
    peer.ack(EDS);
    peer.ack(LDS);
    assert_eq!(peer.snapshot("cds a1 b1 c1 / eds a3 b1 / lds i3 l2>a m1>b n1>c"), "eds a3 / lds i3");
    assert_eq!(peer.ack(EDS), "", "listeners have one unanswered push");
    assert_eq!(peer.ack(LDS), "lds l2");
    peer.ack(LDS);
    assert_eq!(peer.ack(CDS), "cds c1 / lds m1");
    peer.ack(LDS);
    assert_eq!(peer.ack(CDS), "lds n1");
}

#[test]
fn slow_cluster_holds_up_only_what_refers_to_it_in_full_sets_too() {
    let mut peer = sotw().with("cds a1 / eds a1 / lds i1 l1>a");
    for (type_url, names) in [(CDS, ""), (EDS, "a b"), (LDS, "")] {
        peer.ask(type_url, names);
        peer.ack(type_url);
    }
    assert_eq!(peer.snapshot("cds a2 b1 / eds a1 b1 / lds i1 l2>a m1>b"), "cds a2 b1 / eds a1 b1");
    peer.ack(EDS);
    assert_eq!(peer.snapshot("cds a2 b1 / eds a1 b2 / lds i2 l2>a m1>b"), "eds b2 / lds i2 l1");
    peer.ack(LDS);
    assert_eq!(peer.ack(CDS), "lds i2 l2", "the last endpoints of b are not acknowledged");
    peer.ack(LDS);
    assert_eq!(peer.ack(EDS), "lds i2 l2 m1");
}

#[test]
fn listener_waits_for_clusters_of_its_routes() {
    let mut peer = settled("cds a1 / eds a1 / lds l1>a / rds r1>a");
    assert_eq!(peer.snapshot("cds a1 b1 / eds a1 / lds l2+r / rds r2>b"), "cds b1");
    assert_eq!(peer.ack(CDS), "lds l2 / rds r2");
}

#[test]
fn new_listeners_wait_with_removed_ones_whose_address_they_may_take() {
    let mut peer = settled("cds a1 / lds i1 l1>a");
    assert_eq!(peer.snapshot("cds a1 b1 / lds i2 k1>a m1>b"), "cds b1 / lds i2");
    peer.ack(LDS);
    assert_eq!(peer.ack(CDS), "lds k1 m1 -l");
}

#[test]
fn full_set_keeps_a_cluster_until_listeners_stop_using_it() {
    let mut peer = sotw().with("cds a1 / lds l1>a");
    peer.ask(CDS, "");
    peer.ack(CDS);
    peer.ask(LDS, "");
    peer.ack(LDS);
    assert_eq!(peer.snapshot("cds b1 / lds l2>b"), "cds a1 b1");
    assert_eq!(peer.ack(CDS), "lds l2");
    assert_eq!(peer.ack(LDS), "cds b1");
}

#[test]
fn cluster_added_again_before_its_removal_is_not_removed() {
    let mut peer = settled("cds a1 b1 / lds l1>b");
    assert_eq!(peer.snapshot("cds a1 / lds l2>a"), "lds l2");
    assert_eq!(peer.snapshot("cds a1 b1 / lds l2>a"), "");
    assert_eq!(peer.ack(LDS), "");
    assert!(peer.stream.is_settled());
}

#[test]
fn endpoints_follow_an_updated_cluster_once_more() {
    let mut peer = settled("cds a1 b1 / eds a1 b1");
    assert_eq!(peer.snapshot("cds a2 b1 / eds a1 b1"), "cds a2 / eds a1");
    let mut peer = sotw().with("cds a1 b1 / eds a1 b1");
    peer.ask(CDS, "");
    peer.ack(CDS);
    peer.ask(EDS, "a b");
    peer.ack(EDS);
    assert_eq!(peer.snapshot("cds a2 b1 / eds a1 b1"), "cds a2 b1 / eds a1");
}

#[test]
fn endpoints_follow_a_cluster_that_was_updated_before_the_client_resumed_them() {
    let mut peer = delta().with("cds a2 b1 / eds a1 b1");
    assert_eq!(peer.ask(CDS, "a@1 b@1"), "cds a2");
    assert_eq!(peer.ask(EDS, "a b a@1 b@1"), "eds a1");
}

#[test]
fn endpoints_are_answered_while_clusters_are_unacknowledged() {
    let mut peer = delta().with("cds a1 / eds a1 / sds s1");
    assert_eq!(peer.ask(CDS, ""), "cds a1");
    assert_eq!(peer.ask(EDS, "a"), "eds a1");
    assert_eq!(peer.ask(SDS, "s"), "sds s1");
}

#[test]
fn resumed_listeners_wait_for_changed_clusters_and_new_ones_do_not() {
    let mut peer = delta().with("cds a2 / lds l2>a / rds r1");
    assert_eq!(peer.ask(CDS, "a@1"), "cds a2");
    assert_eq!(peer.ask(LDS, "l@1"), "");
    assert_eq!(peer.ask(RDS, "r"), "rds r1");
    assert_eq!(peer.ack(CDS), "lds l2");
}

#[test]
fn a_newer_snapshot_replaces_an_unsent_one() {
    let mut peer = settled("cds a1 / lds l1>a");
    assert_eq!(peer.snapshot("cds a2 / lds l2>a"), "cds a2");
    assert_eq!(peer.snapshot("cds a3 / lds l3>a"), "");
    assert_eq!(peer.snapshot("cds a4 / lds l4>a"), "");
    assert_eq!(peer.ack(CDS), "cds a4");
    assert_eq!(peer.ack(CDS), "lds l4");
}

#[test]
fn rejection_does_not_block_other_types() {
    let mut peer = settled("cds a1 / lds l1>a");
    assert_eq!(peer.snapshot("cds a2 / lds l2>a"), "cds a2");
    assert_eq!(peer.nack(CDS, "unknown field"), "lds l2");
    let counters = peer.stream.counters(CDS);
    assert_eq!((counters.sent, counters.acknowledged, counters.rejected), (2, 1, 1));
    assert!(counters.rejecting);
}

#[test]
fn unsubscribed_type_blocks_nothing() {
    let mut peer = delta().with("lds l1");
    peer.ask(LDS, "");
    peer.ack(LDS);
    assert_eq!(peer.snapshot("cds a1 / eds a1 / lds l2"), "lds l2");
    assert!(peer.stream.is_subscribed(LDS) && !peer.stream.is_subscribed(CDS));
}

#[test]
fn client_names_are_counted_until_dropped() {
    let mut incremental = delta();
    incremental.ask(EDS, "a b");
    assert_eq!(incremental.stream.names(), 4, "asked for, and not yet answered");
    incremental.snapshot("eds a1");
    assert_eq!(incremental.stream.names(), 2);
    incremental.ask(EDS, "-a -b");
    incremental.ask(CDS, "*");
    assert_eq!(incremental.stream.names(), 0);

    let mut whole = sotw().with("eds a1");
    whole.ask(EDS, "a b");
    assert_eq!(whole.stream.names(), 2);
    whole.ask(EDS, "b");
    assert_eq!(whole.stream.names(), 1);
}

#[test]
fn resources_are_shared_and_never_copied() {
    let cluster = resource("a", 1);
    let mut snapshot = Snapshot::default();
    snapshot.resources.insert(CDS, cluster.clone());
    let snapshot = Arc::new(snapshot);
    let mut delta = Stream::<incremental::Subscription>::default();
    let mut sotw = Stream::<whole::Subscription>::default();
    delta.on(Event::Snapshot(snapshot.clone()));
    sotw.on(Event::Snapshot(snapshot));
    let one = delta.on(Event::Request(Requested::Served(CDS), incremental::Request::default()));
    let other = sotw.on(Event::Request(Requested::Served(CDS), whole::Request::default()));
    assert!(Arc::ptr_eq(&one[0].resources[0], &cluster) && Arc::ptr_eq(&other[0].resources[0], &cluster));
}

/// A draining stream whose client has all of `text`.
fn draining(text: &str) -> crate::testing::Peer<incremental::Subscription> {
    let mut peer = delta();
    peer.stream = Stream::draining();
    peer.snapshot(text);
    for type_url in [CDS, LDS] {
        peer.ask(type_url, "*");
        peer.ack(type_url);
    }
    peer
}

#[test]
fn cluster_stays_until_connections_of_its_listener_are_drained() {
    let mut peer = draining("cds a1 b1 / lds l1>b");
    assert_eq!(peer.snapshot("cds a1 / lds l2>a"), "lds l2");
    assert_eq!(peer.stream.drains(), 0, "the client still has to answer the new listener");
    assert_eq!(peer.ack(LDS), "");
    assert!(peer.stream.is_settled(), "it has all that it should have");
    assert_eq!(peer.stream.drains(), 1);
    assert_eq!(peer.snapshot("cds a1 / lds l3>a"), "lds l3");
    assert_eq!(peer.on(Event::Drained(0)), "");
    // The unanswered listener never used it.
    assert_eq!(peer.on(Event::Drained(1)), "cds -b");
    assert_eq!(peer.ack(LDS), "");
    assert_eq!((peer.ack(CDS), peer.stream.drains()), (String::new(), 1));
}

#[test]
fn each_cluster_waits_for_its_own_drain() {
    let mut peer = draining("cds a1 b1 c1 / lds l1>b m1>c");
    assert_eq!(peer.snapshot("cds a1 c1 / lds l2>a m1>c"), "lds l2");
    assert_eq!((peer.ack(LDS), peer.stream.drains()), (String::new(), 1));
    assert_eq!(peer.snapshot("cds a1 / lds l2>a m2>a"), "lds m2");
    assert_eq!((peer.ack(LDS), peer.stream.drains()), (String::new(), 2));
    assert_eq!(peer.on(Event::Drained(1)), "cds -b");
    peer.ack(CDS);
    assert_eq!(peer.on(Event::Drained(2)), "cds -c");
}

#[test]
fn cluster_that_came_back_waits_for_a_new_drain() {
    let mut peer = draining("cds a1 b1 / lds l1>b");
    for (without, with) in [("cds a1 / lds l2>a", "cds a1 b1 / lds l3>b"), ("cds a1 / lds l4>a", "")] {
        assert!(peer.snapshot(without).starts_with("lds"));
        peer.ack(LDS);
        if !with.is_empty() {
            assert_eq!(peer.snapshot(with), "lds l3");
            peer.ack(LDS);
        }
    }
    assert_eq!((peer.on(Event::Drained(1)), peer.stream.drains()), (String::new(), 2));
    assert_eq!(peer.on(Event::Drained(2)), "cds -b");
}

#[test]
fn unknown_listener_of_an_earlier_stream_keeps_all_clusters() {
    let mut peer = delta().with("cds a2 / lds l2>a");
    assert_eq!(peer.ask(CDS, "* a@1 b@1"), "cds a2");
    assert_eq!(peer.ask(LDS, "* l@1"), "");
    assert_eq!(peer.ack(CDS), "lds l2");
    assert_eq!(peer.ack(LDS), "cds -b");
}
