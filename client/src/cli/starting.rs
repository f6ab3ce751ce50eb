//! A server that was started just now loads its tables first, and takes nothing until then: commands wait for it.

use std::{
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use basalt_proto::v1::{GetServerInfoRequest, GetServerInfoResponse};
use indicatif::ProgressBar;

use super::{CliError, grid};
use crate::{
    client::Client,
    error::{Error, ErrorReason, Result},
};

/// How long it is left alone before it is asked again.
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// Waits until a server has its tables, for so long at most, and shows how far it is.
pub(super) async fn wait(client: &Client, most: Duration) -> Result<(), CliError> {
    let (began, mut shown) = (Instant::now(), Shown::default());
    loop {
        let error = match ask(client).await {
            Err(Error::Server(error)) if error.reason == ErrorReason::Starting => error,
            // The time is over.
            Err(error @ Error::Deadline) => return Err(CliError::Client(error)),
            // Whatever else there is, the command hears it.
            _ => return Ok(()),
        };
        if began.elapsed() + PAUSE >= most {
            return Err(CliError::Client(Error::Server(error)));
        }
        shown.tell(&error.message);
        tokio::time::sleep(PAUSE).await;
    }
}

async fn ask(client: &Client) -> Result<GetServerInfoResponse> {
    let call = client.once();
    let request = call.request(GetServerInfoRequest {})?;
    call.call(call.catalog().get_server_info(request)).await
}

/// How far a server is, on standard error: as it goes on a terminal, else once.
#[derive(Debug, Default)]
pub(super) struct Shown {
    bar: Option<ProgressBar>,
}

impl Shown {
    pub(super) fn tell(&mut self, message: &str) {
        let message = grid::escape_lines(message);
        let is_terminal = std::io::stderr().is_terminal();
        if self.bar.is_none() && !is_terminal {
            eprintln!("note: {message}; waiting for it");
        }
        let new = || if is_terminal { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        let bar = self.bar.get_or_insert_with(new);
        bar.set_message(message);
        bar.tick();
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
