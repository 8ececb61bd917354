//! A leader that is suspended, and resumes after another one has taken over.
//!
//! The suspended process is this program again, with the place of its store in an environment variable.

use std::{
    env,
    io::{BufRead as _, BufReader, Lines, Write as _, stdin},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use kodiak_store::{Backend, Expect, PostgresConfig, Store, StoreConfig, StoreError};
use kodiak_testkit::postgres;

use super::{NEVER, bed};
use crate::bed::*;

const PLACE: &str = "KODIAK_TEST_FENCED_STORE";
const TTL: Duration = Duration::from_secs(1);
const TEST: &str = "postgres::fencing::suspended_leader_cannot_overwrite_its_successor";

/// Prints `leads`, waits for a line, and then writes with the version that it read as leader.
async fn be_the_victim(place: &str) {
    let (port, database) = place.split_once(' ').unwrap();
    let config = PostgresConfig {
        host: postgres::HOST.into(),
        port: port.parse().unwrap(),
        user: postgres::USER.into(),
        database: database.into(),
        lease_ttl: TTL,
        poll_interval: NEVER,
        ..PostgresConfig::default()
    };
    let store = Store::open(StoreConfig::new(Backend::Postgres(config))).await.unwrap();
    let mut leadership = store.leadership();
    leadership.wait_for(|leads| *leads).await.unwrap();
    let read = write(&store, put("decided", "{}")).await.records[0].clone().unwrap();
    println!("fenced: leads");
    tokio::task::spawn_blocking(|| stdin().lock().lines().next()).await.unwrap();
    match store.commit(put_if("decided", r#"{"by":"the former"}"#, Expect::Version(read.version)).into()).await {
        Ok(_) => println!("fenced: written"),
        Err(StoreError::Conflict(_)) => println!("fenced: conflict"),
        Err(error) => println!("fenced: {error:?}"),
    }
    leadership.wait_for(|leads| !*leads).await.unwrap();
    println!("fenced: follows");
}

struct Victim {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Victim {
    fn start(place: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .env(PLACE, place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line of its output.
    fn says(&mut self) -> String {
        let said = self
            .lines
            .by_ref()
            .map(Result::unwrap)
            .find_map(|line| line.split_once("fenced: ").map(|(_, said)| said.to_owned()));
        said.expect("it says something")
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn suspended_leader_cannot_overwrite_its_successor() {
    if let Ok(place) = env::var(PLACE) {
        return be_the_victim(&place).await;
    }
    let Some(mut bed) = bed(NEVER) else { return };
    bed.postgres_config().lease_ttl = TTL;
    let config = bed.postgres_config();
    let mut victim = Victim::start(&format!("{} {}", config.port, config.database));
    assert_eq!(victim.says(), "leads");
    victim.signal("-STOP");
    let next = bed.open().await;
    let leads = tokio::time::timeout(Duration::from_secs(20), async {
        next.leadership().wait_for(|leads| *leads).await.map(drop)
    });
    leads.await.expect("another one takes over").unwrap();
    write(&next, put("decided", r#"{"by":"the next"}"#)).await;

    writeln!(victim.child.stdin.as_ref().unwrap(), "go").unwrap();
    victim.signal("-CONT");
    assert_eq!(victim.says(), "conflict");
    assert_eq!(victim.says(), "follows");
    assert_eq!(&*spec(&next, "decided"), r#"{"by":"the next"}"#);
    assert!(*next.leadership().borrow());
}
