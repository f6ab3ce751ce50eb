//! What messages take in memory once they are decoded, for whoever counts it before they are: an empty message of two
//! bytes becomes a struct of a hundred.

/// A message.
#[derive(Debug)]
pub struct Shape {
    /// Bytes of its struct, with what stands in it.
    pub size: usize,
    /// By number, ascending; 64 at most.
    pub fields: &'static [Field],
}

/// A field of a message.
#[derive(Debug)]
pub struct Field {
    /// By which the wire format knows it.
    pub number: u32,
    /// Whether it may be there many times.
    pub repeated: bool,
    /// What is in it.
    pub holds: Holds,
}

/// What is in a field.
#[derive(Debug)]
pub enum Holds {
    /// Another message.
    Message(&'static Shape),
    /// Text, or bytes.
    Bytes {
        /// Whether they are copied out of the message; else they stay where they came.
        copied: bool,
    },
    /// A number of so many bytes, as a varint on the wire.
    Varint(usize),
    /// A number of as many bytes as on the wire.
    Fixed(usize),
}

impl Shape {
    /// That of the message that a method of a service is asked with; `None`: there is no such method.
    pub fn of_request(service: &str, method: &str) -> Option<&'static Self> {
        find(service, method)
    }

    /// The place of a field among all of them.
    pub fn position(&self, number: u32) -> Option<usize> {
        self.fields.iter().position(|field| field.number == number)
    }
}

include!(concat!(env!("OUT_DIR"), "/shapes.rs"));
