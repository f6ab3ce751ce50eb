//! Commands wait for a server that loads its tables.

use std::time::Duration;

use basalt_client::cli::{CliError, Command, ConnectArgs, try_run};

use super::server::Script;

async fn tables(script: &Script, timeout: Duration) -> Result<(), CliError> {
    let server = script.clone().serve().await;
    let connect = ConnectArgs { server, timeout, key_file: None, ca: None, cert: None, cert_key: None };
    try_run(Command::Tables, &connect).await
}

#[tokio::test]
async fn commands_wait_until_a_server_has_its_tables() {
    let script = Script { starting: 2, ..Default::default() };
    tables(&script, Duration::from_secs(30)).await.unwrap();
    assert!(script.calls_of("get_server_info") >= 3);

    let script = Script { starting: usize::MAX, ..Default::default() };
    let error = tables(&script, Duration::from_millis(700)).await.unwrap_err();
    assert!(error.report().contains("(STARTING)"), "{}", error.report());
    assert!(script.calls_of("get_server_info") > 1);
}
