//! What clients ask for: the messages of Flight SQL, out of the bytes that Flight carries them in.

use arrow_flight::{
    FlightData, FlightDescriptor,
    flight_descriptor::DescriptorType,
    sql::{Any, Command, CommandGetSqlInfo, CommandGetTables, ProstMessageExt as _},
};
use basalt_proto::shapes::{Field, Holds, Shape};
use prost::Message as _;

use crate::{
    decoded, limits,
    status::{RequestError, Result},
};
use basalt_proto::v1::ErrorReason;

/// What Flight's messages take: a descriptor may name a path of many parts, and rows come with one. All others hold
/// nothing that is there many times.
static DESCRIPTOR: Shape = Shape {
    size: size_of::<FlightDescriptor>(),
    fields: &[Field { number: 3, repeated: true, holds: Holds::Bytes { copied: true } }],
};
static DATA: Shape = Shape {
    size: size_of::<FlightData>(),
    fields: &[Field { number: 1, repeated: false, holds: Holds::Message(&DESCRIPTOR) }],
};

/// That of the message that a method is asked with.
pub(super) fn shape(method: &str) -> Option<&'static Shape> {
    match method {
        "GetFlightInfo" | "PollFlightInfo" | "GetSchema" => Some(&DESCRIPTOR),
        "DoPut" | "DoExchange" => Some(&DATA),
        _ => None,
    }
}

/// The commands that have lists, and what these take.
static TABLES: Shape = Shape {
    size: size_of::<CommandGetTables>(),
    fields: &[Field { number: 4, repeated: true, holds: Holds::Bytes { copied: true } }],
};
static SQL_INFO: Shape = Shape {
    size: size_of::<CommandGetSqlInfo>(),
    fields: &[Field { number: 1, repeated: true, holds: Holds::Varint(size_of::<u32>()) }],
};

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
    let lists = [(CommandGetTables::type_url(), &TABLES), (CommandGetSqlInfo::type_url(), &SQL_INFO)];
    if let Some((_, shape)) = lists.into_iter().find(|(url, _)| *url == any.type_url) {
        decoded::check(shape, &any.value, limits::FLIGHT_DECODED_BYTES)?;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The shapes are those of the messages: what is in them is counted, and no more.
    #[test]
    fn lists_are_counted_before_they_are_made() {
        let tables = |types: usize| CommandGetTables {
            table_types: vec![String::new(); types],
            ..CommandGetTables::default()
        };
        let asked = |command: Any| of_bytes(&command.encode_to_vec());
        assert!(asked(tables(1000).as_any()).is_ok());
        let error = asked(tables(200_000).as_any()).unwrap_err();
        assert_eq!(error.reason(), "MESSAGE_TOO_LARGE");
        let infos = |info: Vec<u32>| asked(CommandGetSqlInfo { info }.as_any());
        assert!(infos(vec![500; 1024]).is_ok());
        let bytes = decoded::bytes(&SQL_INFO, &CommandGetSqlInfo { info: vec![1; 1000] }.encode_to_vec());
        assert!((4000..5000).contains(&bytes), "{bytes}");

        let descriptor = FlightDescriptor { path: vec![String::new(); 1000], ..FlightDescriptor::default() };
        for bytes in [
            decoded::bytes(&DESCRIPTOR, &descriptor.encode_to_vec()),
            decoded::bytes(
                &DATA,
                &FlightData { flight_descriptor: Some(descriptor), ..FlightData::default() }.encode_to_vec(),
            ),
        ] {
            assert!((24_000..26_000).contains(&bytes), "{bytes}");
        }
    }
}
