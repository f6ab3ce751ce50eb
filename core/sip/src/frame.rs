//! Frames: a SIP in a file or a stream, behind a varint that counts its bytes.

use crate::{Limits, SipError, reader::Reader, varint};

/// Appends a frame that holds `sip`, which is `tag | body` and so not empty.
pub fn write(sip: &[u8], out: &mut Vec<u8>) {
    varint::write(sip.len() as u64, out);
    out.extend_from_slice(sip);
}

/// Takes the frame apart that `bytes` begin with: what it holds, and what follows it. Whether that is a SIP
/// is for [`View::open`](crate::View::open) to say.
///
/// # Errors
/// [`SipError::VarintTooLong`] and [`SipError::Overflow`] for its length, [`SipError::LimitExceeded`] where
/// that exceeds `limits`, [`SipError::Empty`] where it is 0, and [`SipError::Truncated`]. Places count from
/// the frame's first byte.
pub fn read<'a>(bytes: &'a [u8], limits: &Limits) -> Result<(&'a [u8], &'a [u8]), SipError> {
    let mut reader = Reader::new(bytes, 0);
    let length = varint::read(&mut reader)?;
    if length == 0 {
        return Err(SipError::Empty { at: 0 });
    }
    Limits::check(0, "body_bytes", length - 1, limits.body_bytes as u64)?;
    let sip = reader.take(usize::try_from(length).unwrap_or(usize::MAX))?;
    Ok((sip, bytes.get(reader.at()..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_follow_one_another() {
        let mut bytes = Vec::new();
        write(&[0], &mut bytes);
        write(&[2; 200], &mut bytes);
        let (first, rest) = read(&bytes, &Limits::default()).unwrap();
        assert_eq!(first, [0]);
        let (second, rest) = read(rest, &Limits::default()).unwrap();
        assert_eq!((second, rest), ([2; 200].as_slice(), [].as_slice()));
    }

    #[test]
    fn a_length_is_checked() {
        let error = |bytes: &[u8]| read(bytes, &Limits { body_bytes: 300, ..Limits::default() }).unwrap_err();
        assert_eq!(error(&[]), SipError::Truncated { at: 0, need: 1 });
        assert_eq!(error(&[0]), SipError::Empty { at: 0 });
        assert_eq!(error(&[2, 0]), SipError::Truncated { at: 1, need: 2 });
        assert_eq!(error(&[0x81, 0]), SipError::VarintTooLong { at: 0 });
        let limit = SipError::LimitExceeded { at: 0, what: "body_bytes", found: 301, limit: 300 };
        assert_eq!(error(&[0xae, 0x02]), limit);
    }
}
