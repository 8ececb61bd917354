//! More connections than there may be.

use kodiak_listen::{ConnectionLimits, Refused};
use tokio::io::AsyncWriteExt as _;

use crate::bed::{Bed, PATIENCE, closed, exchange};

fn at_most(connections: usize) -> ConnectionLimits {
    ConnectionLimits { connections, first_byte: PATIENCE * 10, ..ConnectionLimits::api() }
}

#[tokio::test]
async fn silent_connections_lock_nobody_out() {
    let bed = Bed::start(at_most(10), None).await;
    let mut used = bed.connect().await;
    exchange(&mut used).await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(bed.connect().await);
    }
    for _ in 0..3 {
        exchange(&mut bed.connect().await).await;
    }
    // Whoever is known to ask something stays.
    exchange(&mut used).await;
    closed(&mut silent[0]).await;
    let refused = bed.seen.refused();
    assert!(refused.len() >= 90 && refused.iter().all(|reason| *reason == Refused::Evicted), "{refused:?}");
}

#[tokio::test]
async fn where_all_are_busy_a_new_connection_is_closed_at_once() {
    let bed = Bed::start(at_most(2), None).await;
    let mut busy = Vec::new();
    for _ in 0..2 {
        let mut stream = bed.connect().await;
        stream.write_all(b"GET /never HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        busy.push(stream);
    }
    // A connection is evicted until the request of each before it has arrived.
    loop {
        closed(&mut bed.connect().await).await;
        if bed.seen.refused().contains(&Refused::TotalLimit) {
            break;
        }
        for stream in &mut busy {
            stream.writable().await.unwrap();
        }
    }
    drop(busy);
    bed.seen.until_open(0).await;
    exchange(&mut bed.connect().await).await;
}
