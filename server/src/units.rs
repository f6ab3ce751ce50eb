//! Sizes and durations as people write them: `4GiB`, `70%`, `30s`.

use std::{fmt, net::SocketAddr, path::Path, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::cgroup;

/// An amount of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// This share of a whole, in percent.
    Share(u8),
    /// So many bytes.
    Bytes(u64),
}

impl Memory {
    /// In bytes, where shares are of `whole`.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(percent) => whole / 100 * u64::from(percent),
        }
    }

    /// The bytes that it is.
    ///
    /// # Errors
    /// It is a share.
    pub fn bytes(self) -> Result<u64, String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Share(_) => Err("it is bytes such as \"10GiB\", no share".to_owned()),
        }
    }

    /// In bytes, where shares are of this machine's memory (or of the least limit of its control groups).
    ///
    /// # Errors
    /// A share, where the machine does not say how much memory it has.
    pub fn resolve(self) -> Result<u64, String> {
        match (self, machine_bytes()) {
            (Self::Share(_), None) => {
                Err("the machine does not say how much memory it has; name bytes".into())
            }
            (amount, machine) => Ok(amount.of(machine.unwrap_or_default())),
        }
    }
}

/// The memory of the machine, or what its control groups leave of it.
fn machine_bytes() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = info.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"))?;
    let machine = kib.trim().parse::<u64>().ok()?.checked_mul(1024)?;
    let groups = cgroup::memory_limit(Path::new("/"));
    Some(groups.map_or(machine, |groups| groups.min(machine)))
}

const UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no amount of memory such as \"70%\", \"12GiB\" or \"1048576\"");
        if let Some(percent) = text.strip_suffix('%') {
            return percent
                .trim()
                .parse()
                .ok()
                .filter(|p| (1..=100).contains(p))
                .map(Self::Share)
                .ok_or_else(wrong);
        }
        let (number, unit) =
            UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit))).ok_or_else(wrong)?;
        let number: u64 = number.trim().parse().map_err(|_| wrong())?;
        number.checked_mul(*unit).map(Self::Bytes).ok_or_else(wrong)
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(percent) => write!(f, "{percent}%"),
            Self::Bytes(bytes) => {
                match UNITS.iter().find(|(_, unit)| bytes.is_multiple_of(*unit) && bytes >= unit) {
                    Some((name, unit)) => write!(f, "{}{name}", bytes / unit),
                    None => write!(f, "{bytes}"),
                }
            }
        }
    }
}

impl Serialize for Memory {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Reads a duration from a text such as "30s", for serde.
pub(crate) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text)
        .map_err(|_| D::Error::custom(format!("{text:?} is no time such as \"500ms\", \"5s\" or \"10m\"")))
}

/// Reads where to listen.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is not an IP address and a port, such as 127.0.0.1:7700"))
}

/// The same, for serde.
pub(crate) fn listen<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    address(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// The same of what may be missing.
pub(crate) fn optional_listen<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    listen(deserializer).map(Some)
}

/// Reads bytes from a text such as "10GiB", for serde.
pub(crate) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Memory::deserialize(deserializer)?.bytes().map_err(D::Error::custom)
}

/// The same of what may be missing.
pub(crate) fn optional_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    bytes(deserializer).map(Some)
}

/// Writes a duration as [`duration`] reads it, for serde.
#[allow(clippy::ref_option, reason = "serde's signature")]
pub(crate) fn write_duration<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => serializer.collect_str(&humantime::format_duration(*duration)),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_it_is_written() {
        for (text, memory) in [
            ("70%", Memory::Share(70)),
            ("12GiB", Memory::Bytes(12 << 30)),
            ("1536MiB", Memory::Bytes(3 << 29)),
            ("1000", Memory::Bytes(1000)),
        ] {
            assert_eq!(text.parse(), Ok(memory));
            assert_eq!(memory.to_string(), text);
        }
        assert_eq!("2 KiB".parse(), Ok(Memory::Bytes(2048)));
        for text in ["", "0%", "101%", "-1", "GiB", "1.5GiB", "1kB", "99999999999TiB"] {
            assert!(text.parse::<Memory>().is_err(), "{text:?}");
        }
        assert!(Memory::Share(50).resolve().unwrap() > 1 << 20);
    }
}
