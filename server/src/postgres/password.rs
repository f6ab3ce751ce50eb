//! Who a client is: the user is a key's name, the password the key, and SCRAM sees that it stays with the client.

use std::{net::SocketAddr, sync::Arc};

use bytes::{Buf as _, Bytes};
use pgwire::messages::startup::Authentication;

use super::{
    Shared,
    error::{Error, Result},
    wire::{End, Wire},
};
use crate::access::{
    Principal,
    scram::{Exchange, MECHANISM},
};

/// Asks for the key of a user; without keys, everybody is nobody in particular.
pub(super) async fn ask(
    shared: &Shared,
    wire: &mut Wire,
    address: SocketAddr,
    user: &str,
) -> std::result::Result<Principal, End> {
    let state = &shared.state;
    let Some(keys) = state.access.keys() else { return Ok(Principal::Anonymous(address)) };
    let (key, verifier) = keys.of_name(user);
    wire.put(&Authentication::SASL(vec![MECHANISM.to_owned()]))?;
    wire.flush().await?;
    let first = wire.password().await?;
    let number = state.environment.random();
    let (exchange, asked) = Exchange::begin(verifier, &initial(first)?, number).map_err(malformed)?;
    wire.put(&Authentication::SASLContinue(asked.into()))?;
    wire.flush().await?;
    let last = wire.password().await?;
    match (exchange.finish(&last), key) {
        (Some(proof), Some(key)) => {
            wire.put(&Authentication::SASLFinal(proof.into()))?;
            Ok(Principal::Key(Arc::clone(&key), address))
        }
        _ => {
            state.access.refused_as(user, address);
            let message = format!("password authentication failed for user \"{user}\"");
            Err(Error::new("28P01", message).fatal().into())
        }
    }
}

/// What SCRAM has in the first message: it comes behind the mechanism's name and a length.
fn initial(mut message: Bytes) -> Result<Bytes> {
    let wrong = || malformed("the first message is malformed");
    let end = message.iter().position(|byte| *byte == 0).ok_or_else(wrong)?;
    if message.split_to(end) != MECHANISM.as_bytes() {
        return Err(malformed("this mechanism was not offered"));
    }
    message.advance(1);
    if message.len() < 4 {
        return Err(wrong());
    }
    match usize::try_from(message.get_i32()) {
        Ok(length) if length == message.len() => Ok(message),
        _ => Err(wrong()),
    }
}

fn malformed(why: &'static str) -> Error {
    Error::protocol(format!("SCRAM: {why}")).fatal()
}
