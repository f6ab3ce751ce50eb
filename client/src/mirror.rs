//! Structs of this crate for the API's messages that hold numbers and texts alone.

/// A struct with the fields of a message, and how the message becomes one.
macro_rules! mirror {
    ($($(#[$meta:meta])+ $name:ident { $($(#[doc = $doc:literal])+ $field:ident: $kind:ty,)+ })+) => {$(
        $(#[$meta])+
        #[non_exhaustive]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $kind,)+
        }

        impl From<basalt_proto::v1::$name> for $name {
            fn from(message: basalt_proto::v1::$name) -> Self {
                Self { $($field: message.$field,)+ }
            }
        }
    )+};
}

pub(crate) use mirror;

/// The structs of a list of messages.
pub(crate) fn all<M, T: From<M>>(messages: Vec<M>) -> Vec<T> {
    messages.into_iter().map(T::from).collect()
}
