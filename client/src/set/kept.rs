//! Sets that the server keeps, and their handles.

use std::{fmt, ops::Deref, str::FromStr, time::Duration};

use basalt_proto::v1::{self, filter, row_set};

use super::{Domain, Ids, Set, malformed};
use crate::{
    client::Client,
    error::{Error, Result},
    expr::Filter,
};

/// A set by the hash of what it is: its scope and its bytes. As text: 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle([u8; 32]);

/// A set on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kept {
    /// Its name in filters.
    pub handle: Handle,
    /// The time that it had left when the server answered.
    pub expires_in: Duration,
}

impl Kept {
    pub(super) fn from_proto(handle: &[u8], expires_ms: u64) -> Result<Self> {
        let handle = handle.try_into().map_err(|_| malformed("a handle that is not of 32 bytes"))?;
        Ok(Self { handle: Handle(handle), expires_in: Duration::from_millis(expires_ms) })
    }
}

impl Handle {
    /// A filter that is true for the rows of the kept set. Values go with
    /// [`Expr::in_keys`](crate::Expr::in_keys).
    pub fn rows(self) -> Filter {
        let rows = v1::RowSet { scope: None, set: Some(row_set::Set::Handle(self.to_vec())) };
        v1::Filter { kind: Some(filter::Kind::Rows(rows)) }.into()
    }
}

impl Deref for Handle {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({self})")
    }
}

impl FromStr for Handle {
    type Err = Error;

    /// # Errors
    /// [`Error::InvalidSet`] for anything but 64 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self> {
        let digit = |c: u8| char::from(c).to_digit(16).and_then(|d| u8::try_from(d).ok());
        let byte = |pair: &[u8]| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?);
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        let wrong =
            || Error::InvalidSet(format!("{text:?} is not a handle: those have 64 hexadecimal digits"));
        bytes.map(Self).ok_or_else(wrong)
    }
}

impl Client {
    /// Puts a set on the server and gives it as one that is kept there: filters name it instead of sending it.
    /// Putting the same set again renews its time.
    ///
    /// # Errors
    /// [`Error::InvalidSet`] where only the server holds the ids; what the server objects to; sets above its quota
    /// are `SIP_QUOTA`.
    pub async fn put_set<D: Domain>(&self, set: &Set<D>, time: Duration) -> Result<Set<D>> {
        let ttl_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        let request = v1::PutSipRequest { scope: Some(set.scope()), sip: set.held()?.clone(), ttl_ms };
        let request = &request;
        let answer = self
            .retrying(|call| async move { call.call(call.sips().put(call.request(request.clone())?)).await });
        let answer = answer.await?;
        let kept = Kept::from_proto(&answer.handle, answer.expires_ms)?;
        Ok(Set { kept: Some(kept), cardinality: answer.cardinality, ..set.clone() })
    }

    /// The set of a handle.
    ///
    /// # Errors
    /// `SIP_NOT_FOUND` where the server has no such set, or no longer.
    pub async fn get_set(&self, handle: Handle) -> Result<Set<Ids>> {
        let answer = self
            .retrying(|call| async move {
                let request = v1::GetSipRequest { handle: handle.to_vec() };
                call.call(call.sips().get(call.request(request)?)).await
            })
            .await?;
        let kept = Kept::from_proto(&handle, answer.expires_ms)?;
        Ok(Set { kept: Some(kept), ..Set::from_answer(answer.scope, answer.sip, answer.cardinality)? })
    }

    /// Has the server forget a set; false where it had none.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn delete_set(&self, handle: Handle) -> Result<bool> {
        let answer = self
            .retrying(|call| async move {
                let request = v1::DeleteSipRequest { handle: handle.to_vec() };
                call.call(call.sips().delete(call.request(request)?)).await
            })
            .await?;
        Ok(answer.existed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_round_trip() {
        let text = "00ff".repeat(16);
        let handle: Handle = text.parse().unwrap();
        assert_eq!((handle.to_string(), &handle[..3]), (text.clone(), &[0, 255, 0][..]));
        assert_eq!(text.to_uppercase().parse::<Handle>().unwrap(), handle);
        for bad in
            ["", "00", &text[1..], &format!("{text}0"), &text.replace('f', "g"), &text.replace("ff", "é")]
        {
            assert!(bad.parse::<Handle>().is_err(), "{bad}");
        }
    }
}
