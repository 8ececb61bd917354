//! `kodiak demo client`: requests to one address at a constant rate.

use std::time::{Duration, Instant};

use hyper::{StatusCode, Uri};
use kodiak_model::GoDuration;
use kodiak_terminal::{Exit, Signals, Terminal, usage};

use super::call::Caller;
use super::flow::{Expect, Flow};
use super::tally::Tally;
use super::traffic::Traffic;

const SECOND: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
#[command(after_help = "\
Most requests share keep-alive connections; every fourth uses a new one. Requests are sent at the given rate, whether
earlier ones were answered or not.

Exit codes: 0 when there were requests and none failed, 1 otherwise.

Examples:
  kodiak demo client --url http://127.0.0.1:9000/
  kodiak demo client --url http://127.0.0.1:9000/ --rate 500 --for 10s --json
  kodiak demo client --url http://127.0.0.1:9000/ --expect 403")]
pub(super) struct Args {
    /// URL to request, over plain HTTP
    #[arg(long)]
    url: Uri,

    /// Requests per second
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,

    /// Expected status [default: any 2xx]
    #[arg(long, value_name = "STATUS")]
    expect: Option<StatusCode>,

    /// Stop after this time [default: run until Ctrl-C]
    #[arg(long = "for", value_name = "DURATION", value_parser = kodiak_terminal::duration)]
    limit: Option<GoDuration>,

    /// Print JSON, one object per line; the last one is the summary
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args, terminal: Terminal) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen()?;
    if args.url.scheme_str() != Some("http") || args.url.host().is_none_or(str::is_empty) {
        return Err(usage(format!("{} is not for plain HTTP; write for example http://127.0.0.1:9000/", args.url)));
    }
    let limit =
        args.limit.map(|limit| limit.to_std().ok_or_else(|| usage("--for must not be negative"))).transpose()?;
    let expect = args.expect.map_or(Expect::Success, Expect::Status);
    let say = |tally: &Tally, time: Duration| {
        if args.json {
            let mut line = tally.json();
            line["seconds"] = time.as_secs().into();
            return terminal.data(&line.to_string());
        }
        terminal.result(&format!("{:>4} s  {}", time.as_secs(), tally.line()))
    };
    let started = Instant::now();
    let traffic = Traffic::start(&[Flow { uris: vec![args.url], expect, tolerated: &[] }], args.rate, &Caller::new());
    let mut clock = tokio::time::interval_at(tokio::time::Instant::now() + SECOND, SECOND);
    let end = tokio::time::sleep(limit.unwrap_or(Duration::MAX));
    tokio::pin!(end);
    loop {
        tokio::select! {
            _ = clock.tick() => say(&Tally::of(&traffic.tallies()), started.elapsed())?,
            () = &mut end => break,
            () = signals.next() => break,
        }
    }
    let tally = tokio::select! {
        tallies = traffic.stop() => Tally::of(&tallies),
        () = signals.next() => return Ok(Exit::Refused),
    };
    say(&tally, started.elapsed())?;
    Ok(if tally.is_fine() { Exit::Fine } else { Exit::Refused })
}
