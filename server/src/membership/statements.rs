//! Connections for the tasks of SQL statements, one to each node for each statement.
//!
//! Tasks read from each other in streams, of which some wait until others have been read: what holds one up must never
//! hold up another. So the window of such a connection is that of all streams that a statement may have, and no statement
//! waits for the streams of another, nor do calls that are none of tasks.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use basalt_proto::cluster::v1::peer_service_client::PeerServiceClient;
use tonic::transport::{Channel, Endpoint};

use crate::{environment::Environment, limits, tls};

/// See the module.
#[derive(Debug)]
pub(super) struct Statements {
    endpoint: Endpoint,
    tls: Option<tls::Way>,
    clients: Mutex<HashMap<u128, Weak<PeerServiceClient<Channel>>>>,
}

impl Statements {
    /// Of a node that is reached as all others are.
    pub(super) fn new(endpoint: &Endpoint, tls: Option<tls::Way>) -> Self {
        let endpoint = endpoint
            .clone()
            .initial_stream_window_size(limits::TASK_STREAM_WINDOW_BYTES)
            .initial_connection_window_size(limits::TASK_STREAM_WINDOW_BYTES * limits::PEER_STREAMS);
        Self { endpoint, tls, clients: Mutex::default() }
    }

    pub(super) fn client(
        &self,
        statement: u128,
        environment: &dyn Environment,
    ) -> Arc<PeerServiceClient<Channel>> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&statement).and_then(Weak::upgrade) {
            return client;
        }
        clients.retain(|_, client| client.strong_count() > 0);
        let client = PeerServiceClient::new(environment.channel(&self.endpoint, self.tls.as_ref()))
            .max_decoding_message_size(limits::PEER_MESSAGE_BYTES)
            .max_encoding_message_size(limits::PEER_MESSAGE_BYTES);
        let client = Arc::new(client);
        clients.insert(statement, Arc::downgrade(&client));
        client
    }
}
