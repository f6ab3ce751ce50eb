//! The codes and the reasons of a server's errors.

use basalt_proto::v1;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident;)+) => {
        /// Why a server refuses or fails, from the API's closed list; what a newer server says beside them is
        /// [`ErrorReason::Unspecified`].
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorReason {
            /// It said none.
            #[default]
            Unspecified,
            $($(#[doc = $doc])+ $name,)+
        }

        impl From<v1::ErrorReason> for ErrorReason {
            fn from(reason: v1::ErrorReason) -> Self {
                match reason {
                    v1::ErrorReason::Unspecified => Self::Unspecified,
                    $(v1::ErrorReason::$name => Self::$name,)+
                }
            }
        }

        impl From<ErrorReason> for v1::ErrorReason {
            fn from(reason: ErrorReason) -> Self {
                match reason {
                    ErrorReason::Unspecified => Self::Unspecified,
                    $(ErrorReason::$name => Self::$name,)+
                }
            }
        }
    };
}

reasons! {
    /// No table of that name.
    TableNotFound;
    /// No column of that name.
    ColumnNotFound;
    /// No kept set of that handle, or no longer.
    SipNotFound;
    /// No such query runs, or none that the caller may see.
    QueryNotFound;
    /// Who asks may not do that.
    PermissionDenied;
    /// The server asks for a key, and has none or one that it does not know.
    Unauthenticated;
    /// A table's files cannot be read.
    TableDamaged;
    /// There is a table of that name.
    TableExists;
    /// A request id that was committed with other rows.
    RequestIdReused;
    /// A name that none can have.
    InvalidName;
    /// A schema that none can have.
    InvalidSchema;
    /// Rows that do not fit the table.
    InvalidBatch;
    /// A query that is none.
    InvalidQuery;
    /// Bytes that are no set.
    InvalidSip;
    /// A table of the store that is none, or that cannot have what was asked for.
    InvalidStore;
    /// An expression over types that it does not have.
    TypeMismatch;
    /// A filter that is nested too deeply.
    FilterTooDeep;
    /// A filter with too many parts.
    FilterTooLarge;
    /// Messages that are not in the order that the API has.
    Protocol;
    /// A division by zero.
    DivisionByZero;
    /// A value that does not fit its type.
    Overflow;
    /// A version of a table that is not kept any more.
    VersionGone;
    /// A set of rows of another version, or of another table.
    ScopeMismatch;
    /// A table, or a server, that only answers.
    ReadOnly;
    /// Nodes that speak different versions of their protocol.
    PeerProtocol;
    /// A message that is larger than the server takes.
    MessageTooLarge;
    /// There is no memory for it.
    MemoryLimit;
    /// Too many queries run.
    Overloaded;
    /// The kept sets take as much memory as they may.
    SipQuota;
    /// The server is about to stop.
    ShuttingDown;
    /// The store does not answer.
    StoreUnavailable;
    /// The server is not ready yet.
    Starting;
    /// Nodes that are needed for the answer do not answer.
    Incomplete;
    /// Another write with the same request id runs.
    RequestInProgress;
    /// Another write came first.
    WriteConflict;
    /// Whether a write took place is not known.
    OutcomeUnknown;
    /// The deadline passed.
    DeadlineExceeded;
    /// It was cancelled.
    Cancelled;
    /// A fault of the server.
    Internal;
}

const PREFIX: &str = "ERROR_REASON_";

impl ErrorReason {
    /// By its name in the API, such as `TABLE_NOT_FOUND`.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        v1::ErrorReason::from_str_name(&format!("{PREFIX}{name}")).map(Self::from)
    }

    /// Its name in the API, such as `TABLE_NOT_FOUND`.
    pub fn name(self) -> &'static str {
        v1::ErrorReason::from(self).as_str_name().trim_start_matches(PREFIX)
    }
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident;)+) => {
        /// The canonical code of an error, as gRPC has them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
        }

        impl From<tonic::Code> for Code {
            fn from(code: tonic::Code) -> Self {
                match code {
                    $(tonic::Code::$name => Self::$name,)+
                }
            }
        }

        impl From<Code> for tonic::Code {
            fn from(code: Code) -> Self {
                match code {
                    $(Code::$name => Self::$name,)+
                }
            }
        }
    };
}

codes! {
    /// No error.
    Ok;
    /// It was cancelled.
    Cancelled;
    /// What happened is not known.
    Unknown;
    /// The request is wrong.
    InvalidArgument;
    /// The deadline passed.
    DeadlineExceeded;
    /// What is named is not there.
    NotFound;
    /// What is to be made is there.
    AlreadyExists;
    /// Who asks may not.
    PermissionDenied;
    /// Something is used up, or too large.
    ResourceExhausted;
    /// The state of what is named does not allow it.
    FailedPrecondition;
    /// Something else came between.
    Aborted;
    /// A value lies beyond what its type has.
    OutOfRange;
    /// The server does not have that.
    Unimplemented;
    /// A fault of the server.
    Internal;
    /// The server cannot answer now.
    Unavailable;
    /// Data is lost or damaged.
    DataLoss;
    /// The server does not know who asks.
    Unauthenticated;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for reason in [ErrorReason::TableNotFound, ErrorReason::Internal, ErrorReason::SipQuota] {
            assert_eq!(ErrorReason::of_name(reason.name()), Some(reason));
        }
        assert_eq!(ErrorReason::TableNotFound.name(), "TABLE_NOT_FOUND");
        assert_eq!(ErrorReason::of_name("FROM_THE_FUTURE"), None);
        assert_eq!(Code::from(tonic::Code::NotFound), Code::NotFound);
    }
}
