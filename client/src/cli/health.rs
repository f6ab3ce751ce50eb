//! `basalt health`: the standard gRPC health check.

use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use basalt_proto::v1::GetServerInfoRequest;

use super::{CliError, ConnectArgs, print, style::Style};
use crate::error::Error;

pub(crate) async fn run(connect: &ConnectArgs) -> Result<(), CliError> {
    let client = connect.connect().await?;
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
    print(&format!("{serving}  {}  basalt {} ({})\n", client.address(), info.version, info.simd))
}
