//! Load generator in a network namespace: a process that takes commands and reports results.
//!
//! It is the test executable again. Commands are lines; each is answered with a line of JSON on standard error.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Write as _},
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::Stdio,
    sync::Arc,
};

use http_body_util::{BodyExt as _, Empty};
use hyper::{body::Bytes, header::HeaderValue};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::TcpStream,
    process::{Child, ChildStderr, ChildStdin, Command},
};
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};

use super::{
    Load, PATIENCE, Service, eventually,
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

/// Of a request without negotiation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HttpVersion {
    Http1,
    Http2,
}

/// A response.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) text: String,
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

    /// Answers HTTP requests with this name, at a port of this address. Returns both.
    pub(crate) async fn serve(&mut self, name: &str, address: Ipv4Addr) -> SocketAddr {
        self.tell(&format!("serve {name} {address}")).await
    }

    /// Calls all of these hosts and ports, as soon as each answers.
    pub(crate) async fn visit(&mut self, targets: &[String]) {
        self.tell::<()>(&format!("visit {}", targets.join(" "))).await;
    }

    /// Response to one call, whatever its status.
    pub(crate) async fn answer(&mut self, protocol: HttpVersion, target: &str) -> Result<Answered, String> {
        let command = match protocol {
            HttpVersion::Http1 => "http1",
            HttpVersion::Http2 => "http2",
        };
        self.tell(&format!("{command} {target}")).await
    }

    /// Connects, sends a line if there is one, and returns all bytes until the other side closes the connection.
    pub(crate) async fn until_closed(&mut self, target: &str, line: &str) -> Result<String, String> {
        self.tell(&format!("tcp {target} {line}")).await
    }

    /// Sends a request over TLS with this SNI, trusting the CA in this file. Returns the response.
    pub(crate) async fn over_tls(&mut self, target: SocketAddr, sni: &str, ca: &Path) -> Result<String, String> {
        self.tell(&format!("tls {target} {sni} {}", ca.display())).await
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
    let mut workloads = Vec::new();
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
            ("serve", _) => {
                let (name, address) = operand.split_once(' ').expect("a name and an address");
                let workload = Service::start(name, address.parse().unwrap()).await;
                answer(&workload.address);
                workloads.push(workload);
            }
            ("visit", _) => {
                for target in operand.split_whitespace() {
                    eventually(&format!("{target} answers"), async || try_once(target).await).await;
                }
                load = Some(Load::visiting(operand.split_whitespace()));
                answer(&());
            }
            ("try", _) => answer(&try_once(operand).await),
            ("http1", _) => answer(&answer_of(HttpVersion::Http1, operand).await),
            ("http2", _) => answer(&answer_of(HttpVersion::Http2, operand).await),
            ("tcp", _) => {
                let (target, line) = operand.split_once(' ').expect("a target, and a line that may be empty");
                answer(&until_closed(target, line).await);
            }
            ("tls", _) => {
                let [target, sni, ca] = operand.split(' ').collect::<Vec<_>>().try_into().expect("target, SNI, CA");
                answer(&over_tls(target, sni, Path::new(ca)).await);
            }
            (unknown, _) => panic!("{unknown} cannot be done now"),
        }
    }
}

async fn answer_of(version: HttpVersion, target: &str) -> Result<Answered, String> {
    let mut builder = Client::builder(TokioExecutor::new());
    builder.http2_only(matches!(version, HttpVersion::Http2));
    let client: Client<_, Empty<Bytes>> = builder.build_http();
    let exchange = async {
        let uri = format!("http://{target}/").parse().unwrap();
        let response = client.get(uri).await.map_err(|error| format!("{error:?}"))?;
        let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
        let headers = response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(|error| format!("{error:?}"))?.to_bytes();
        Ok(Answered { status, headers, text: String::from_utf8_lossy(&body).into_owned() })
    };
    tokio::time::timeout(PATIENCE, exchange).await.unwrap_or_else(|_| Err("no answer".to_owned()))
}

async fn until_closed(target: &str, line: &str) -> Result<String, String> {
    let exchange = async {
        let mut stream = TcpStream::connect(target).await?;
        if !line.is_empty() {
            stream.write_all(format!("{line}\n").as_bytes()).await?;
        }
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    };
    let exchange = tokio::time::timeout(PATIENCE, exchange).await;
    exchange.unwrap_or_else(|_| Err(io::Error::other("not closed"))).map_err(|error| error.to_string())
}

async fn over_tls(target: &str, sni: &str, ca: &Path) -> Result<String, String> {
    let config = kodiak_crypto::client_config(&fs::read(ca).unwrap()).unwrap();
    let name = ServerName::try_from(sni.to_owned()).unwrap();
    let exchange = async {
        let stream = TcpStream::connect(target).await?;
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let request = format!("GET / HTTP/1.1\r\nHost: {sni}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut bytes = Vec::new();
        // Some servers close the connection without saying so in TLS.
        let _ = stream.read_to_end(&mut bytes).await;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let exchange = tokio::time::timeout(PATIENCE, exchange).await;
    exchange.unwrap_or_else(|_| Err(io::Error::other("no answer"))).map_err(|error| error.to_string())
}

fn answer(answer: &impl Serialize) {
    writeln!(io::stderr(), "{ANSWER}{}", serde_json::to_string(answer).unwrap()).expect("standard error is open");
}
