#[derive(clap::Parser)]
struct Cli { #[command(flatten)] args: kodiak_bench::Args }
#[tokio::main]
async fn main() {
    let cli = <Cli as clap::Parser>::parse();
    kodiak_bench::run(cli.args, kodiak_terminal::Terminal::new(true, true)).await.unwrap();
}
