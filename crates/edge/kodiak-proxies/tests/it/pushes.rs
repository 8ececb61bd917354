//! Pushes under way: which streams the writer waits for before it publishes more.

use kodiak_ads::Session;
use kodiak_xds_stream::Counters;

use crate::bed::{Bed, key, report, snapshot};

const CROWD: usize = 80;

async fn connected(bed: &Bed) -> Vec<Session> {
    let mut sessions = Vec::new();
    for n in 0..CROWD {
        sessions.push(bed.connect(&format!("web-{n}")).await);
    }
    sessions
}

fn publish(bed: &Bed, revision: u64) {
    bed.registry.begin_pushes(CROWD);
    for n in 0..CROWD {
        bed.registry.publish(&key(&format!("web-{n}")), snapshot(revision), "".into(), Vec::new());
    }
}

fn sent(sessions: &mut [Session], revision: u64) {
    for session in sessions {
        report(session, &Counters::default(), Some(revision));
    }
}

#[tokio::test(start_paused = true)]
async fn most_streams_must_have_sent_the_newest_snapshot() {
    let bed = Bed::start().await;
    let mut sessions = connected(&bed).await;
    assert!(bed.registry.has_pushed());
    publish(&bed, 1);
    publish(&bed, 2);
    sent(&mut sessions, 1);
    assert!(!bed.registry.has_pushed(), "an older snapshot was sent");
    let waiting = tokio::spawn({
        let registry = bed.registry.clone();
        async move { registry.pushed().await }
    });
    sent(&mut sessions[..CROWD / 2], 2);
    assert!(!bed.registry.has_pushed());
    sent(&mut sessions[CROWD / 2..CROWD - 16], 2);
    assert!(bed.registry.has_pushed(), "few are not waited for");
    waiting.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn slow_streams_are_waited_for_once() {
    let bed = Bed::start().await;
    let mut sessions = connected(&bed).await;
    publish(&bed, 1);
    sent(&mut sessions[..40], 1);
    bed.registry.give_up_pushes();
    assert!(bed.registry.has_pushed());
    publish(&bed, 2);
    assert!(!bed.registry.has_pushed(), "the others are waited for");
    sent(&mut sessions[..40], 2);
    assert!(bed.registry.has_pushed());
    // They have caught up, and count again.
    sent(&mut sessions, 2);
    publish(&bed, 3);
    sent(&mut sessions[..40], 3);
    assert!(!bed.registry.has_pushed());
}

#[tokio::test(start_paused = true)]
async fn streams_that_end_are_not_waited_for() {
    let bed = Bed::start().await;
    let sessions = connected(&bed).await;
    publish(&bed, 1);
    drop(sessions);
    assert!(bed.registry.has_pushed());
    // Streams that were replaced while they sent.
    let sessions = connected(&bed).await;
    publish(&bed, 2);
    let newer = connected(&bed).await;
    assert!(bed.registry.has_pushed());
    drop((sessions, newer));
}
