//! SCRAM-SHA-256 (RFC 5802 and 7677), the server's side, as PostgreSQL speaks it: without channel binding, the user named
//! before. A password never goes over the wire, and what is kept of it does not open anything.

use std::{fmt, num::NonZeroU32, str::FromStr};

use base64::{Engine as _, prelude::BASE64_STANDARD as BASE64};
use ring::{
    digest::{SHA256, digest},
    hmac::{self, HMAC_SHA256},
    pbkdf2,
};
use subtle::ConstantTimeEq as _;

use crate::limits;

/// The mechanism's name.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";

type Hash = [u8; 32];

/// What is kept of a password, in PostgreSQL's notation: `SCRAM-SHA-256$4096:salt$stored:server`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Verifier {
    salt: Vec<u8>,
    iterations: NonZeroU32,
    stored: Hash,
    server: Hash,
}

impl Verifier {
    pub(crate) fn new(password: &str, salt: [u8; 16], iterations: NonZeroU32) -> Self {
        let salted = salted(password, &salt, iterations);
        let stored = hash(&mac(&salted, &[b"Client Key"]));
        Self { salt: salt.to_vec(), iterations, stored, server: mac(&salted, &[b"Server Key"]) }
    }

    /// That of nobody, always the same for a name: whoever asks does not find out which names there are.
    pub(crate) fn of_nobody(name: &str, secret: &Hash) -> Self {
        let salt = mac(secret, &[b"salt", name.as_bytes()]);
        let nothing = mac(secret, &[b"key", name.as_bytes()]);
        Self {
            salt: salt[..16].to_vec(),
            iterations: limits::SCRAM_ITERATIONS,
            stored: nothing,
            server: nothing,
        }
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MECHANISM)
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [salt, stored, server] = [&self.salt[..], &self.stored, &self.server].map(|b| BASE64.encode(b));
        write!(f, "{MECHANISM}${}:{salt}${stored}:{server}", self.iterations)
    }
}

impl FromStr for Verifier {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (head, keys) = text.strip_prefix(MECHANISM)?.strip_prefix('$')?.split_once('$')?;
            let (iterations, salt) = head.split_once(':')?;
            let (stored, server) = keys.split_once(':')?;
            let [salt, stored, server] = [salt, stored, server].map(|text| BASE64.decode(text).ok());
            let iterations = iterations.parse().ok()?;
            Some(Self {
                salt: salt?,
                iterations,
                stored: stored?.try_into().ok()?,
                server: server?.try_into().ok()?,
            })
        };
        read().ok_or("it is of the form SCRAM-SHA-256$iterations:salt$stored:server")
    }
}

/// A proof that is asked for.
#[derive(Debug)]
pub(crate) struct Exchange {
    verifier: Verifier,
    /// What the client has said about channel binding.
    header: String,
    /// Both sides' numbers, of which the client's comes first.
    nonce: String,
    /// Messages without the proof: the client's first, then the server's.
    messages: String,
}

impl Exchange {
    /// The client's first message, and what it is asked. `number` is one that nobody guesses.
    pub(crate) fn begin(
        verifier: Verifier,
        first: &[u8],
        number: u128,
    ) -> Result<(Self, String), &'static str> {
        let first = std::str::from_utf8(first).map_err(|_| "it is no UTF-8")?;
        let bare = first.splitn(3, ',').nth(2).ok_or("it has no header")?;
        let header = &first[..first.len() - bare.len()];
        if header.starts_with("p=") {
            return Err("channel binding was not offered");
        }
        if !(header.starts_with("n,") || header.starts_with("y,")) {
            return Err("its header is malformed");
        }
        let mut attributes = bare.split(',');
        let (user, nonce) = (attributes.next(), attributes.next());
        let nonce =
            match (user.and_then(|user| user.strip_prefix("n=")), nonce.and_then(|n| n.strip_prefix("r="))) {
                (Some(_), Some(nonce)) if !nonce.is_empty() => format!("{nonce}{number:032x}"),
                _ => return Err("it is of the form n,,n=user,r=nonce"),
            };
        let asked = format!("r={nonce},s={},i={}", BASE64.encode(&verifier.salt), verifier.iterations);
        let messages = format!("{bare},{asked}");
        Ok((Self { verifier, header: header.to_owned(), nonce, messages }, asked))
    }

    /// The client's last message, and the server's own proof; `None`: the client does not know the password.
    pub(crate) fn finish(self, last: &[u8]) -> Option<String> {
        let last = std::str::from_utf8(last).ok()?;
        let (without_proof, proof) = last.rsplit_once(",p=")?;
        let (binding, nonce) = without_proof.split_once(',')?;
        let expected = (format!("c={}", BASE64.encode(&self.header)), format!("r={}", self.nonce));
        if (binding, nonce) != (&expected.0, &expected.1) {
            return None;
        }
        let proof: Hash = BASE64.decode(proof).ok()?.try_into().ok()?;
        let signed = [self.messages.as_bytes(), b",", without_proof.as_bytes()];
        let signature = mac(&self.verifier.stored, &signed);
        let mut key = proof;
        key.iter_mut().zip(signature).for_each(|(key, signature)| *key ^= signature);
        if !bool::from(hash(&key).ct_eq(&self.verifier.stored)) {
            return None;
        }
        Some(format!("v={}", BASE64.encode(mac(&self.verifier.server, &signed))))
    }
}

fn salted(password: &str, salt: &[u8], iterations: NonZeroU32) -> Hash {
    let mut out = Hash::default();
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, salt, password.as_bytes(), &mut out);
    out
}

fn hash(bytes: &[u8]) -> Hash {
    let mut out = Hash::default();
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Hash {
    let mut context = hmac::Context::with_key(&hmac::Key::new(HMAC_SHA256, key));
    parts.iter().for_each(|part| context.update(part));
    let mut out = Hash::default();
    out.copy_from_slice(context.sign().as_ref());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_example_of_the_standard() {
        let salt: Vec<u8> = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::new("pencil", salt.try_into().unwrap(), 4096.try_into().unwrap());
        let client = "rOprNGfwEbeRWgbNEkqO";
        let nonce = format!("{client}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0");
        let mut exchange =
            Exchange::begin(verifier.clone(), format!("n,,n=user,r={client}").as_bytes(), 0).unwrap().0;
        // The standard's own number.
        exchange.nonce = nonce.clone();
        exchange.messages = format!("n=user,r={client},r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        let last = format!("c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let told = exchange.finish(last.as_bytes());
        assert_eq!(told.as_deref(), Some("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert_eq!(verifier.to_string().parse::<Verifier>(), Ok(verifier));
    }

    #[test]
    fn what_does_not_fit_opens_nothing() {
        let verifier = || Verifier::new("pencil", [7; 16], 4096.try_into().unwrap());
        for first in ["", "n,,", "n,,n=me", "p=tls-unique,,n=,r=a", "x,,n=,r=a", "n,,n=,r=", "n,,r=a,n="] {
            assert!(Exchange::begin(verifier(), first.as_bytes(), 1).is_err(), "{first}");
        }
        let begin = || Exchange::begin(verifier(), b"n,,n=,r=abc", 1).unwrap().0;
        let nonce = format!("abc{:032x}", 1);
        let proof = BASE64.encode([1; 32]);
        for last in [
            String::new(),
            format!("c=biws,r={nonce}"),
            format!("c=biws,r={nonce},p={proof}"),
            format!("c=biws,r={nonce},p=AA=="),
            format!("c=eSws,r={nonce},p={proof}"),
            format!("c=biws,r=abc,p={proof}"),
        ] {
            assert_eq!(begin().finish(last.as_bytes()), None, "{last}");
        }
        let secret = [3; 32];
        let (nobody, again) = (Verifier::of_nobody("a", &secret), Verifier::of_nobody("a", &secret));
        assert!(nobody == again && nobody != Verifier::of_nobody("b", &secret));
    }
}
