//! Kills a process that writes, repeatedly, and checks that acknowledged writes are stored.
//!
//! The victim is this program again, with the place of its store in an environment variable. It prints every
//! acknowledged write to its standard output. All of these must be in the store.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod check;
mod payload;
mod victim;

use std::{
    env,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use kodiak_store::{Backend, PostgresConfig};
use kodiak_testkit::postgres;

use self::{check::Checker, payload::Random};

/// `file PATH` or `postgres PORT DATABASE`.
const PLACE: &str = "KODIAK_CRASH_PLACE";
const KILLS: usize = 30;

fn main() {
    if let Ok(place) = env::var(PLACE) {
        return victim::run(backend(&place));
    }
    if env::args().any(|argument| argument == "--list") {
        return println!("crash: test");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kodiak.redb");
    crash(&format!("file {}", path.display()));
    if let Some(server) = postgres::shared() {
        crash(&format!("postgres {} {}", server.port(), server.create_database().unwrap()));
    }
}

fn backend(place: &str) -> Backend {
    match place.split(' ').collect::<Vec<_>>()[..] {
        ["file", path] => Backend::File { path: Path::new(path).into() },
        ["postgres", port, database] => Backend::Postgres(PostgresConfig {
            host: postgres::HOST.into(),
            port: port.parse().unwrap(),
            user: postgres::USER.into(),
            database: database.into(),
            ..PostgresConfig::default()
        }),
        _ => panic!("{place}"),
    }
}

fn crash(place: &str) {
    let mut random = Random::new();
    let mut checker = Checker::new(backend(place));
    for kill in 0..KILLS {
        let (mut victim, lines) = spawn(place);
        let mut said = Vec::new();
        if kill % 5 == 4 {
            // While it starts, or repairs the file after the last kill, or writes for the first time.
            thread::sleep(Duration::from_millis(random.below(60)));
        } else {
            said.push(lines.recv_timeout(Duration::from_secs(20)).expect("it writes"));
            thread::sleep(Duration::from_millis(5 + random.below(56)));
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        said.extend(lines);
        checker.check(&said);
    }
    let Checker { acknowledged, lost, torn, .. } = checker;
    println!("crash test: kills {KILLS}, acknowledged {acknowledged}, lost {lost}, torn {torn} ({place})");
    assert!(acknowledged > KILLS, "it hardly wrote anything");
    assert_eq!((lost, torn), (0, 0));
}

/// The process, and its complete lines.
fn spawn(place: &str) -> (Child, mpsc::Receiver<String>) {
    let mut victim = Command::new(env::current_exe().unwrap())
        .env(PLACE, place)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(victim.stdout.take().unwrap());
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        // The last line may be truncated, and is ignored then.
        while output.read_line(&mut line).is_ok_and(|_| line.ends_with('\n')) {
            if sender.send(line.trim_end().to_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    (victim, lines)
}
