//! HTTP/1 connections that say nothing, or too slowly, or nothing any more.

use std::time::Duration;

use kodiak_listen::{ConnectionLimits, Refused};
use tokio::io::AsyncWriteExt as _;

use crate::bed::{Bed, PATIENCE, SHORT, closed, exchange};

#[tokio::test]
async fn a_silent_connection_is_closed() {
    let bed = Bed::start(ConnectionLimits { first_byte: SHORT, ..ConnectionLimits::api() }, None).await;
    closed(&mut bed.connect().await).await;
    bed.seen.until_open(0).await;
    assert_eq!(bed.seen.refused(), [Refused::FirstByte]);
}

#[tokio::test]
async fn a_head_that_drips_is_not_waited_for() {
    let limits = ConnectionLimits { request_head: 2 * SHORT, ..ConnectionLimits::api() };
    let bed = Bed::start(limits, None).await;
    let mut stream = bed.connect().await;
    let drip = async {
        // An endless head, a byte at a time: each is in time, all together never are.
        let head = b"GET / HTTP/1.1\r\nx: ".iter().chain(std::iter::repeat(&b'x'));
        for byte in head {
            if stream.write_all(&[*byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, drip).await.expect("the port closes");
    bed.seen.until_open(0).await;
    assert_eq!(bed.seen.refused(), [Refused::RequestHead]);
}

#[tokio::test]
async fn a_later_head_that_drips_is_not_waited_for_either() {
    let limits = ConnectionLimits { request_head: SHORT, idle: PATIENCE * 10, ..ConnectionLimits::api() };
    let bed = Bed::start(limits, None).await;
    let mut stream = bed.connect().await;
    exchange(&mut stream).await;
    stream.write_all(b"GET / HT").await.unwrap();
    closed(&mut stream).await;
    bed.seen.until_open(0).await;
    assert_eq!(bed.seen.refused(), [Refused::RequestHead]);
}

#[tokio::test]
async fn a_kept_connection_is_closed_when_it_is_idle() {
    let bed = Bed::start(ConnectionLimits { idle: SHORT, ..ConnectionLimits::api() }, None).await;
    let mut stream = bed.connect().await;
    exchange(&mut stream).await;
    closed(&mut stream).await;
    assert_eq!(bed.seen.refused(), [], "that is no fault of anybody");
}

#[tokio::test]
async fn a_request_that_is_not_answered_in_time_is_cut() {
    let bed = Bed::start(ConnectionLimits { exchange: Some(SHORT), ..ConnectionLimits::api() }, None).await;
    let mut stream = bed.connect().await;
    stream.write_all(b"GET /never HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    closed(&mut stream).await;
    bed.seen.until_open(0).await;
    assert_eq!(bed.seen.refused(), [Refused::Exchange]);
}

#[tokio::test]
async fn health_serves_one_request_per_connection() {
    let bed = Bed::start(ConnectionLimits::health(), None).await;
    let mut stream = bed.connect().await;
    let answer = exchange(&mut stream).await;
    assert!(answer.contains("connection: close"), "{answer}");
    closed(&mut stream).await;
}

#[tokio::test]
async fn draining_waits_for_no_silent_connection() {
    let bed = Bed::start(ConnectionLimits { first_byte: PATIENCE * 10, ..ConnectionLimits::api() }, None).await;
    let mut silent = bed.connect().await;
    let mut kept = bed.connect().await;
    exchange(&mut kept).await;
    bed.seen.until_open(2).await;
    bed.drain.cancel();
    closed(&mut silent).await;
    closed(&mut kept).await;
    tokio::time::timeout(PATIENCE / 2, bed.server).await.expect("the server ends").unwrap();
}
