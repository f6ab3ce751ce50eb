//! Limits of keys and certificates, and of what the owner of a key may ask for.

use std::{num::NonZeroU32, time::Duration};

/// Bytes of the file of keys.
pub const KEYS_FILE_BYTES: u64 = 4 << 20;
/// How often a command that changes it looks whether another is done with it, before it gives up.
pub const KEYS_FILE_ATTEMPTS: u32 = 200;
/// For how long it waits in between.
pub const KEYS_FILE_PAUSE: Duration = Duration::from_millis(50);
/// Bytes of a key's name.
pub const KEY_NAME_BYTES: usize = 64;
/// Of SCRAM, as RFC 7677 has it at least: more would not make a key of 256 bits harder to guess.
pub const SCRAM_ITERATIONS: NonZeroU32 = NonZeroU32::MIN.saturating_add(4095);
/// For which certificates are made.
pub const CERTIFICATE_AGE: Duration = Duration::from_secs(2 * 365 * 24 * 60 * 60);
/// For which an authority is made.
pub const AUTHORITY_AGE: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// The least of bytes a second that a key is held to: with less, messages would not arrive in their time.
pub const LEAST_PACE: u64 = 1 << 20;
/// The least memory that a key may be given: with less no query and no write has room.
pub const LEAST_KEY_MEMORY: u64 = 1 << 20;
/// Of how long what such a key has not used may be used at once.
pub const PACE_BURST: Duration = Duration::from_secs(1);
