//! What clients ask for: the messages of Flight SQL, out of the bytes that Flight carries them in.

use arrow_flight::{
    FlightDescriptor,
    flight_descriptor::DescriptorType,
    sql::{Any, Command},
};
use prost::Message as _;

use crate::{
    limits,
    status::{RequestError, Result},
};
use basalt_proto::v1::ErrorReason;

/// The command of a descriptor.
pub(super) fn of_descriptor(descriptor: &FlightDescriptor) -> Result<Command> {
    if descriptor.r#type() != DescriptorType::Cmd {
        let message = "the descriptor is no command of Flight SQL: tables are read by statements";
        return Err(RequestError::new(ErrorReason::InvalidQuery, message));
    }
    of_bytes(&descriptor.cmd)
}

/// The command that some bytes are.
pub(super) fn of_bytes(bytes: &[u8]) -> Result<Command> {
    if bytes.len() > limits::FLIGHT_COMMAND_BYTES {
        let most = limits::FLIGHT_COMMAND_BYTES;
        let message = format!("a command of {} bytes; the limit is {most}", bytes.len());
        return Err(RequestError::new(ErrorReason::MessageTooLarge, message).with("limit_bytes", most as u64));
    }
    let any = Any::decode(bytes).map_err(|error| malformed(&error))?;
    Command::try_from(any).map_err(|error| malformed(&error))
}

fn malformed(error: &dyn std::fmt::Display) -> RequestError {
    RequestError::protocol(format!("what was sent is no command of Flight SQL: {error}"))
}

/// The error of a command that this door does not have, or not there.
pub(super) fn unknown(command: &Command) -> RequestError {
    let name = command.type_url().rsplit(['/', '.']).next().unwrap_or_default();
    let name: String = name.chars().take(80).collect();
    RequestError::new(ErrorReason::InvalidQuery, format!("Basalt does not answer {name:?} here"))
}

/// Refuses a transaction, of which there are none at this door.
pub(super) fn without_transaction(id: Option<&prost::bytes::Bytes>) -> Result<()> {
    if id.is_some_and(|id| !id.is_empty()) {
        let message = "Flight SQL has no transactions here: each statement is committed by itself";
        return Err(RequestError::new(ErrorReason::InvalidQuery, message).at("transaction_id"));
    }
    Ok(())
}
