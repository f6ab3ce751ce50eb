//! `basalt health`: the standard gRPC health check.

use std::time::{Duration, Instant};

use basalt_proto::v1::GetServerInfoRequest;
use clap::Args;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::{
    CliError, ConnectArgs, print,
    starting::{PAUSE, Shown},
    style::Style,
};
use crate::error::Error;

/// How long one try takes at most, however little is left of the time to wait.
const LEAST: Duration = Duration::from_secs(1);

/// Arguments of `health`.
#[derive(Args, Clone, Debug)]
pub struct HealthArgs {
    /// Wait for so long until it is, as for a server that is being started: 60s
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub wait: Option<Duration>,
}

pub(crate) async fn run(args: &HealthArgs, connect: &ConnectArgs) -> Result<(), CliError> {
    let (began, mut shown) = (Instant::now(), Shown::default());
    let may_wait = || args.wait.is_some_and(|most| began.elapsed() + PAUSE < most);
    loop {
        // Default: it is not waited for.
        let left = args.wait.map_or(connect.timeout, |most| most.saturating_sub(began.elapsed()).max(LEAST));
        let connect = ConnectArgs { timeout: connect.timeout.min(left), ..connect.clone() };
        match check(&connect).await {
            Err(CliError::NotReady(why)) if may_wait() => shown.tell(&why),
            Err(CliError::Client(Error::Connection { .. } | Error::Deadline)) if may_wait() => {}
            outcome => {
                drop(shown);
                return print(&outcome?);
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What is said of a server that is ready.
async fn check(connect: &ConnectArgs) -> Result<String, CliError> {
    let client = connect.connect_at_once().await?;
    let call = client.once();
    let request = call.request(HealthCheckRequest { service: String::new() })?;
    let answer = call.call(HealthClient::new(call.host().channel.clone()).check(request)).await?;
    if answer.status() != ServingStatus::Serving {
        // Anything that is asked for says why.
        let request = call.request(GetServerInfoRequest {})?;
        let why = match call.call(call.catalog().get_server_info(request)).await {
            Err(Error::Server(error)) => error.message,
            _ => answer.status().as_str_name().to_owned(),
        };
        return Err(CliError::NotReady(why));
    }
    let info = client.server_info().await?;
    let serving = Style::of(&std::io::stdout()).green("serving");
    Ok(format!("{serving}  {}  basalt {} ({})\n", client.address(), info.version, info.simd))
}
