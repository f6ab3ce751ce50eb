//! Z85, ZeroMQ's base 85 (RFC 32 of ZeroMQ): four bytes as five characters that JSON leaves as they are.

const ALPHABET: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// The digit that a character is; 85 is none.
const DIGITS: [u8; 256] = {
    let (mut digits, mut digit) = ([85; 256], 0);
    while digit < 85 {
        digits[ALPHABET[digit as usize] as usize] = digit;
        digit += 1;
    }
    digits
};

/// Bytes as text; zeros fill the last four.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(4) * 5);
    for chunk in bytes.chunks(4) {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        let word = u32::from_be_bytes(word);
        for power in [52_200_625, 614_125, 7225, 85, 1] {
            text.push(char::from(ALPHABET[(word / power % 85) as usize]));
        }
    }
    text
}

/// What [`encode`] made the text of, zeros included; `None` when it is no such text.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(5) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 5 * 4);
    for chunk in text.as_bytes().chunks(5) {
        let mut word = 0u64;
        for character in chunk {
            let digit = DIGITS[usize::from(*character)];
            if digit == 85 {
                return None;
            }
            word = word * 85 + u64::from(digit);
        }
        bytes.extend(u32::try_from(word).ok()?.to_be_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specification_s_example() {
        let bytes = [0x86, 0x4f, 0xd2, 0x6f, 0xb5, 0x59, 0xf7, 0x5b];
        assert_eq!(encode(&bytes), "HelloWorld");
        assert_eq!(decode("HelloWorld").unwrap(), bytes);
    }

    #[test]
    fn what_is_not_z85_is_refused() {
        for text in ["Hell", "Hello~", "#####", "Hellé", "a b c"] {
            assert_eq!(decode(text), None, "{text}");
        }
        for n in 0..20 {
            let bytes: Vec<u8> = (0..n).map(|i| 255 - i).collect();
            assert_eq!(&decode(&encode(&bytes)).unwrap()[..bytes.len()], bytes);
        }
    }
}
