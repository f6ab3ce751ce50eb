//! `basalt health`: the standard gRPC health check.

use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::{CliError, ConnectArgs, print, style::Style};

pub(crate) async fn run(connect: &ConnectArgs) -> Result<(), CliError> {
    let client = connect.connect().await?;
    let request = client.request(HealthCheckRequest { service: String::new() });
    let answer = client.call(HealthClient::new(client.channel()).check(request)).await?;
    if answer.status() != ServingStatus::Serving {
        return Err(CliError::NotReady(answer.status().as_str_name().to_owned()));
    }
    let info = client.server_info().await?;
    let serving = Style::of(&std::io::stdout()).green("serving");
    print(&format!("{serving}  {}  basalt {} ({})\n", client.address(), info.version, info.simd))
}
