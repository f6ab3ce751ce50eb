//! What a program adds to every call.

use std::fmt;

use tonic::metadata::{Ascii, MetadataKey, MetadataMap, MetadataValue};

use crate::{
    credentials,
    error::{Error, Result},
    hosts::Host,
};

/// Is asked before each try of each call, and adds headers to it: a key that changes, the trace that the call is part of.
///
/// Closures are interceptors; [`Client::with_interceptor`](crate::Client::with_interceptor) takes them.
pub trait Interceptor: Send + Sync + 'static {
    /// Adds to a call that is about to be sent.
    ///
    /// # Errors
    /// What keeps the call from being sent; it is the call's error.
    fn intercept(&self, call: &mut Outgoing<'_>) -> Result<()>;
}

impl<F: Fn(&mut Outgoing<'_>) -> Result<()> + Send + Sync + 'static> Interceptor for F {
    fn intercept(&self, call: &mut Outgoing<'_>) -> Result<()> {
        self(call)
    }
}

/// A call that is about to be sent.
pub struct Outgoing<'a> {
    headers: &'a mut MetadataMap,
    host: &'a Host,
    attempt: u32,
}

impl<'a> Outgoing<'a> {
    pub(crate) fn new(headers: &'a mut MetadataMap, host: &'a Host, attempt: u32) -> Self {
        Self { headers, host, attempt }
    }

    /// The address that it goes to.
    pub fn address(&self) -> &str {
        &self.host.address
    }

    /// Which try it is, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// A header's value, if it is there.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Adds a header, in the place of one of the same name.
    ///
    /// # Errors
    /// [`Error::Header`] for a name or a value that none can have, and for names that gRPC has for itself;
    /// [`Error::Credentials`] for a key (`authorization`) that would go to another machine without TLS.
    pub fn set_header(&mut self, name: &str, value: &str) -> Result<()> {
        let wrong = |message: &str| Error::Header { name: name.to_owned(), message: message.to_owned() };
        let key = MetadataKey::<Ascii>::from_bytes(name.to_ascii_lowercase().as_bytes());
        let key = key.map_err(|_| wrong("the name is none that a header can have"))?;
        if key.as_str().starts_with("grpc-") || key.as_str() == "te" {
            return Err(wrong("the name is one of the protocol's own"));
        }
        let value = value.parse::<MetadataValue<Ascii>>();
        let mut value = value.map_err(|_| wrong("the value is none that a header can have"))?;
        if key.as_str() == "authorization" {
            if !self.host.is_private {
                return Err(Error::Credentials(credentials::WITH_TLS_ALONE.to_owned()));
            }
            value.set_sensitive(true);
        }
        self.headers.insert(key, value);
        Ok(())
    }
}

impl fmt::Debug for Outgoing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("address", &self.address()).field("attempt", &self.attempt).finish()
    }
}
