//! `kodiak demo client`: steady requests to one address.

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
Most requests share connections that are kept; every fourth has one of its own. A request is sent when it is due, whether
those before it were answered or not.

Exit codes: 0 when there were requests and none failed, 1 otherwise.

Examples:
  kodiak demo client --url http://127.0.0.1:9000/
  kodiak demo client --url http://127.0.0.1:9000/ --rate 500 --for 10s --json
  kodiak demo client --url http://127.0.0.1:9000/ --expect 403")]
pub(super) struct Args {
    /// What to ask for, over plain HTTP
    #[arg(long)]
    url: Uri,

    /// Requests in a second
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,

    /// The status that is right [default: any of success]
    #[arg(long, value_name = "STATUS")]
    expect: Option<StatusCode>,

    /// End by itself after so long [default: at Ctrl-C]
    #[arg(long = "for", value_name = "DURATION", value_parser = kodiak_terminal::duration)]
    limit: Option<GoDuration>,

    /// Print JSON, one object in a line; the last one sums it up
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
    let traffic = Traffic::start(&[Flow { uris: vec![args.url], expect }], args.rate, &Caller::new());
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
