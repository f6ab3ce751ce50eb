//! Sets as the bytes of `.sip` files: a frame of the SIP format, then the set's `basalt.v1.Scope` behind its
//! length. A reader that knows nothing but the format reads the ids and stops.

use basalt_proto::v1;
use basalt_sip::{Limits, Sip, frame};
use prost::{Message as _, bytes::Bytes};

use super::{Domain, Ids, Set, sealed::Domain as _};
use crate::{
    error::{Error, Result},
    plan::Statistics,
};

impl<D: Domain> Set<D> {
    /// The set as the bytes of a file.
    ///
    /// # Errors
    /// [`Error::InvalidSet`] where only the server holds the ids.
    pub fn to_file(&self) -> Result<Vec<u8>> {
        let sip = self.sip()?;
        let mut bytes = Vec::with_capacity(sip.as_bytes().len() + 64);
        frame::write(sip.as_bytes(), &mut bytes);
        bytes.extend(self.scope().encode_length_delimited_to_vec());
        Ok(bytes)
    }
}

impl Set<Ids> {
    /// The set that [`Set::to_file`] wrote.
    ///
    /// ```
    /// use basalt_client::{Rows, Set, sip::Sip};
    ///
    /// let rows = Set::new("flights", 3, Rows, &Sip::from_sorted_ids(&[5, 8, 13]));
    /// let read = Set::from_file(&rows.to_file()?)?.into_rows()?;
    /// assert_eq!(read, rows);
    /// # Ok::<(), basalt_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidSet`], with the place, for bytes that are not a set within the default limits and its
    /// scope.
    pub fn from_file(bytes: &[u8]) -> Result<Self> {
        let limits = Limits::default();
        let (set, rest) = frame::read(bytes, &limits).map_err(|e| invalid(&e, 0))?;
        let end = bytes.len() - rest.len();
        let begin = end - set.len();
        let sip = Sip::from_bytes(set, &limits).map_err(|e| invalid(&e, begin))?;
        let mut scope_bytes = rest;
        let scope = v1::Scope::decode_length_delimited(&mut scope_bytes);
        let scope =
            scope.map_err(|e| Error::InvalidSet(format!("no scope of the set at byte {end}: {e}")))?;
        if !scope_bytes.is_empty() {
            let at = bytes.len() - scope_bytes.len();
            return Err(Error::InvalidSet(format!("bytes behind the scope, at byte {at}")));
        }
        let v1::Scope { table, version, key, table_id } = scope;
        Ok(Self {
            table,
            version,
            table_id,
            of: Ids::from_proto(key).map_err(Error::InvalidSet)?,
            bytes: Bytes::copy_from_slice(set),
            cardinality: sip.cardinality(),
            statistics: Statistics::default(),
            kept: None,
        })
    }
}

/// An error of the format, whose places count from `begin`.
fn invalid(error: &basalt_sip::SipError, begin: usize) -> Error {
    Error::InvalidSet(match begin {
        0 => error.to_string(),
        _ => format!("{error} (of the set, which begins at byte {begin})"),
    })
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;

    use super::*;
    use crate::set::{Keys, Rows};

    fn set() -> Set<Ids> {
        let keys = Keys { column: "day".to_owned(), data_type: DataType::Decimal128(9, 2), has_null: true };
        Set::new("t", 7, Ids::Keys(keys), &Sip::from_sorted_ids(&[5, 6, 300, 1 << 40]))
    }

    #[test]
    fn round_trips() {
        assert_eq!(Set::from_file(&set().to_file().unwrap()).unwrap(), set());
        let rows = Set::new("t", 7, Rows, &Sip::from_sorted_ids(&[]));
        let read = Set::from_file(&rows.to_file().unwrap()).unwrap();
        assert!(read.clone().into_keys().is_err());
        assert_eq!(read.into_rows().unwrap(), rows);
        assert_eq!(set().into_keys().unwrap().of.column, "day");
        assert!(set().into_rows().is_err());
    }

    #[test]
    fn a_set_stands_alone_before_its_scope() {
        let bytes = Set::new("t", 1, Rows, &Sip::from_sorted_ids(&[])).to_file().unwrap();
        assert_eq!(bytes[..2], [1, 0]);
        assert_eq!(v1::Scope::decode_length_delimited(&bytes[2..]).unwrap().table, "t");
    }

    #[test]
    fn damage_is_located() {
        let bytes = set().to_file().unwrap();
        let error = |bytes: &[u8]| Set::from_file(bytes).unwrap_err().to_string();
        for cut in 0..bytes.len() {
            assert!(Set::from_file(&bytes[..cut]).is_err(), "{cut}");
        }
        let sip = set().bytes.len();
        assert!(error(&bytes[..=sip]).starts_with(&format!("no scope of the set at byte {}", sip + 1)));
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(error(&longer), format!("bytes behind the scope, at byte {}", bytes.len()));
        let mut other = bytes.clone();
        other[1] = 0xee;
        assert_eq!(error(&other), "unknown SIP tag 0xee (of the set, which begins at byte 1)");
        other[0] = 0;
        assert!(error(&other).contains("byte 0"), "{}", error(&other));
    }
}
