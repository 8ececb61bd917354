//! Load generator in a network namespace: a process that takes commands and reports results.
//!
//! It is the test executable again. Commands are lines; each is answered with a line of JSON on standard error.

use std::{
    env,
    io::{self, Write as _},
    path::Path,
    process::Stdio,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStderr, ChildStdin, Command},
};

use super::{
    Load, eventually,
    load::try_once,
    network::{Network, OTHER_USER},
};

const GENERATES: &str = "KODIAK_TEST_GENERATES_LOAD";
/// Before each answer.
const ANSWER: &str = "=> ";

pub(crate) struct Generator {
    _child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStderr>>,
}

/// Results of requests.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) answered: u64,
    pub(crate) failed: u64,
    pub(crate) failures: Vec<String>,
}

impl Generator {
    /// Starts this test there, from a path that everybody may read. It must begin with [`Self::obeyed`].
    pub(crate) fn start(network: Network, program: &Path, test: &str) -> Self {
        let mut command = Command::from(network.command("setpriv"));
        command.arg(format!("--reuid={OTHER_USER}")).args(["--clear-groups", "--"]).arg(program);
        command.args(["--exact", test, "--nocapture"]).env(GENERATES, "1").current_dir("/").kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (commands, answers) = (child.stdin.take().unwrap(), child.stderr.take().unwrap());
        Self { _child: child, commands, answers: BufReader::new(answers).lines() }
    }

    /// Calls this host and port, as soon as somebody answers there. What was called before is called until then.
    pub(crate) async fn call(&mut self, target: &str) {
        self.tell::<()>(&format!("call {target}")).await;
    }

    /// Lets every caller have so many more answers.
    pub(crate) async fn go_on(&mut self, requests: u64) {
        self.tell::<()>(&format!("go-on {requests}")).await;
    }

    pub(crate) async fn counted(&mut self) -> Counts {
        self.tell("count ").await
    }

    /// One call beside the others, which may fail.
    pub(crate) async fn try_once(&mut self, target: &str) -> Result<String, String> {
        self.tell(&format!("try {target}")).await
    }

    async fn tell<T: DeserializeOwned>(&mut self, command: &str) -> T {
        let told = self.commands.write_all(format!("{command}\n").as_bytes()).await;
        let mut printed = Vec::new();
        while let Some(line) = self.answers.next_line().await.unwrap() {
            if let Some(answer) = line.strip_prefix(ANSWER) {
                return serde_json::from_str(answer).unwrap();
            }
            printed.push(line);
        }
        panic!("no answer to {command:?}, which it heard or not: {told:?}\n{}", printed.join("\n"))
    }

    /// Whether this process is one, and has done what it was told until it was over.
    pub(crate) async fn obeyed() -> bool {
        let generates = env::var_os(GENERATES).is_some();
        if generates {
            obey().await;
        }
        generates
    }
}

async fn obey() {
    let mut load: Option<Load> = None;
    let mut commands = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = commands.next_line().await.unwrap() {
        let (command, operand) = line.split_once(' ').expect("a command has an operand");
        match (command, &load) {
            ("call", load_before) => {
                eventually(&format!("{operand} answers"), async || try_once(operand).await).await;
                match load_before {
                    Some(load) => load.switch(operand).await,
                    None => load = Some(Load::calling(operand)),
                }
                answer(&());
            }
            ("go-on", Some(load)) => answer(&load.go_on(operand.parse().unwrap()).await),
            ("count", Some(load)) => {
                let (answered, failed, failures) = load.counted();
                answer(&Counts { answered, failed, failures });
            }
            ("try", _) => answer(&try_once(operand).await),
            (unknown, _) => panic!("{unknown} cannot be done now"),
        }
    }
}

fn answer(answer: &impl Serialize) {
    writeln!(io::stderr(), "{ANSWER}{}", serde_json::to_string(answer).unwrap()).expect("standard error is open");
}
