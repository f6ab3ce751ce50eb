//! Why bytes are not a canonical SIP.

/// What is wrong with a SIP, and where: `at` counts bytes from the tag, which is byte 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SipError {
    /// The first byte is none of the format's tags.
    #[error("unknown SIP tag {tag:#04x}")]
    UnknownTag {
        /// The byte.
        tag: u8,
    },
    /// The bytes end before the set does.
    #[error("the SIP ends too early: {need} bytes are needed from byte {at} on")]
    Truncated {
        /// Where reading went on.
        at: usize,
        /// How many bytes should follow there, at least.
        need: usize,
    },
    /// Bytes follow the set.
    #[error("the SIP ends at byte {at}, but more bytes follow")]
    TrailingBytes {
        /// The first byte too many.
        at: usize,
    },
    /// A set, bucket or bitmap without ids; the empty set has a tag of its own.
    #[error("nothing in it at byte {at}: only the empty set's tag stands for no ids")]
    Empty {
        /// Where the count stands.
        at: usize,
    },
    /// One of the [`Limits`](crate::Limits) is exceeded.
    #[error("too many {what} at byte {at}: {found}, the limit is {limit}")]
    LimitExceeded {
        /// Where it became known.
        at: usize,
        /// The field of [`Limits`](crate::Limits).
        what: &'static str,
        /// How many there are, at least.
        found: u64,
        /// How many there may be.
        limit: u64,
    },
    /// A varint is longer than its value needs.
    #[error("the varint at byte {at} is longer than its value needs")]
    VarintTooLong {
        /// Its first byte.
        at: usize,
    },
    /// A varint, or an id that it leads to, is above 2^64 - 1.
    #[error("what stands at byte {at} leads above 2^64 - 1")]
    Overflow {
        /// The first byte of the varint, or of the Rice group.
        at: usize,
    },
    /// Ids, buckets or containers do not strictly increase.
    #[error("the {what} at byte {at} does not come after the one before it")]
    Order {
        /// Where it stands.
        at: usize,
        /// `id`, `bucket` or `container`.
        what: &'static str,
    },
    /// Runs overlap, touch, or leave their container.
    #[error("the run at byte {at} overlaps or touches the one before it, or leaves its container")]
    Run {
        /// Where it stands.
        at: usize,
    },
    /// A 32-bit bitmap begins with neither of the two cookies, or with the wrong one.
    #[error("cookie {cookie:#010x} at byte {at} does not begin a canonical 32-bit roaring bitmap")]
    Cookie {
        /// Where it stands.
        at: usize,
        /// The cookie.
        cookie: u32,
    },
    /// A bitmap counts more containers than there are.
    #[error("{found} containers at byte {at}; a 32-bit bitmap has at most 65,536")]
    ContainerCount {
        /// Where the count stands.
        at: usize,
        /// The count.
        found: u32,
    },
    /// The run flags have bits set behind the last container.
    #[error("the run flags have bits behind the last container, at byte {at}")]
    RunFlags {
        /// Their last byte.
        at: usize,
    },
    /// A container's offset is not where it stands.
    #[error("the offset at byte {at} is {found}, the container stands at {expected}")]
    Offset {
        /// Where the offset stands.
        at: usize,
        /// What it says.
        found: u32,
        /// What it should say, from the start of its 32-bit bitmap.
        expected: u32,
    },
    /// A container's cardinality is not the number of its ids.
    #[error("the container at byte {at} declares {declared} ids and holds {found}")]
    Cardinality {
        /// Where the container stands.
        at: usize,
        /// What its description says.
        declared: u32,
        /// What it holds.
        found: u32,
    },
    /// A container is not of the smallest kind for its ids.
    #[error("the container at byte {at} is not of the smallest kind for its ids")]
    ContainerKind {
        /// Where it stands.
        at: usize,
    },
    /// The parameter of a Rice group is not the one that its numbers have.
    #[error("the Rice parameter at byte {at} is not the canonical one")]
    Parameter {
        /// Where it stands.
        at: usize,
    },
    /// A number's upper part in a Rice group has more than 16 zero bits.
    #[error("more than 16 zero bits before a one bit in the Rice group at byte {at}")]
    Unary {
        /// The group's first byte.
        at: usize,
    },
    /// A bit is set behind the last number of a Rice group.
    #[error("a bit is set behind the last number of the Rice group at byte {at}")]
    Padding {
        /// The group's first byte.
        at: usize,
    },
}

impl SipError {
    /// The error's name in the specification.
    pub fn name(&self) -> &'static str {
        match self {
            Self::UnknownTag { .. } => "UnknownTag",
            Self::Truncated { .. } => "Truncated",
            Self::TrailingBytes { .. } => "TrailingBytes",
            Self::Empty { .. } => "Empty",
            Self::LimitExceeded { .. } => "LimitExceeded",
            Self::VarintTooLong { .. } => "VarintTooLong",
            Self::Overflow { .. } => "Overflow",
            Self::Order { .. } => "Order",
            Self::Run { .. } => "Run",
            Self::Cookie { .. } => "Cookie",
            Self::ContainerCount { .. } => "ContainerCount",
            Self::RunFlags { .. } => "RunFlags",
            Self::Offset { .. } => "Offset",
            Self::Cardinality { .. } => "Cardinality",
            Self::ContainerKind { .. } => "ContainerKind",
            Self::Parameter { .. } => "Parameter",
            Self::Unary { .. } => "Unary",
            Self::Padding { .. } => "Padding",
        }
    }
}
