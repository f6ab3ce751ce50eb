//! Sets of ids and what they mean, on their way in and out.

use std::sync::Arc;

use basalt_core::{
    error::ErrorKind,
    query::{KeyFilter, KeySet, RowSet, SipOrigin},
};
use basalt_proto::v1::{self as pb, ErrorReason, SipTag, key_set, row_set};
use basalt_sip::{Limits, Sip, Tag};
use prost::bytes::Bytes;
use tokio::time::Instant;

use super::{filter::invalid, schema};
use crate::{
    limits,
    sets::{KeptSet, KeyDomain, Scope, Sets},
    status::{RequestError, Result},
};

/// A set as a filter has it.
enum Given {
    Sip(Bytes),
    Handle(Vec<u8>),
}

/// Row addresses in a filter.
pub(super) fn row_set(rows: pb::RowSet, sets: &Sets) -> Result<RowSet> {
    let given = rows.set.map(|set| match set {
        row_set::Set::Sip(sip) => Given::Sip(sip),
        row_set::Set::Handle(handle) => Given::Handle(handle),
    });
    let (KeptSet { scope, sip }, origin) = set(rows.scope, given, sets)?;
    if let Some(key) = scope.key {
        let message = format!("the ids are values of column {:?}, not row addresses", key.column);
        return Err(RequestError::new(ErrorReason::ScopeMismatch, message).at("scope.key"));
    }
    let table_id = Some(scope.table_id).filter(|id| *id > 0);
    Ok(RowSet { table: scope.table, version: scope.version, table_id, sip, origin })
}

/// Values of a column in a filter.
pub(super) fn key_set(keys: pb::KeySet, sets: &Sets) -> Result<KeyFilter> {
    let given = keys.set.map(|set| match set {
        key_set::Set::Sip(sip) => Given::Sip(sip),
        key_set::Set::Handle(handle) => Given::Handle(handle),
    });
    let (KeptSet { scope, sip }, origin) = set(keys.scope, given, sets)?;
    let Some(KeyDomain { data_type, has_null, .. }) = scope.key else {
        let message = "the ids are row addresses, not values of a column";
        return Err(RequestError::new(ErrorReason::ScopeMismatch, message).at("scope.key"));
    };
    Ok(KeyFilter { column: keys.column, set: KeySet { data_type, has_null, sip, origin } })
}

fn set(claimed: Option<pb::Scope>, given: Option<Given>, sets: &Sets) -> Result<(KeptSet, SipOrigin)> {
    match given {
        Some(Given::Sip(bytes)) => {
            let (scope, sip) = (scope(claimed)?, Arc::new(sip(bytes)?));
            Ok((KeptSet { scope, sip }, SipOrigin::Request))
        }
        Some(Given::Handle(handle)) => {
            let (set, _) = sets.get(&handle, Instant::now()).map_err(|e| e.at("handle"))?;
            if claimed.is_some() && scope(claimed)? != set.scope {
                let message = "the set that is kept under this handle has another scope";
                return Err(RequestError::new(ErrorReason::ScopeMismatch, message).at("scope"));
            }
            Ok((set, SipOrigin::Handle))
        }
        None => Err(invalid("a set without its bytes or its handle").at("sip")),
    }
}

/// The meaning of a set that comes with its bytes.
pub(crate) fn scope(scope: Option<pb::Scope>) -> Result<Scope> {
    let scope = scope.ok_or_else(|| invalid("a set without its scope").at("scope"))?;
    let key = scope.key.map(key_domain).transpose().map_err(|e| e.at("scope.key"))?;
    Ok(Scope { table: scope.table, version: scope.version, key, table_id: scope.table_id })
}

fn key_domain(key: pb::KeyDomain) -> Result<KeyDomain> {
    let data_type = schema::from_type(key.r#type, ErrorKind::InvalidQuery).map_err(|e| e.at("type"))?;
    if !data_type.has_key_domain() {
        let message = format!("values of type {data_type} are no ids");
        return Err(RequestError::new(ErrorReason::TypeMismatch, message).at("type"));
    }
    Ok(KeyDomain { column: key.column, data_type, has_null: key.has_null })
}

/// The meaning of a set that goes out.
pub(crate) fn to_scope(scope: Scope) -> pb::Scope {
    let key = scope.key.map(|key| pb::KeyDomain {
        column: key.column,
        r#type: Some(schema::to_type(key.data_type)),
        has_null: key.has_null,
    });
    pb::Scope { table: scope.table, version: scope.version, key, table_id: scope.table_id }
}

/// A set from its bytes.
pub(crate) fn sip(bytes: Bytes) -> Result<Sip> {
    // The message limit has bounded the bytes; the ids that they stand for are bounded here.
    let limits = Limits { body_bytes: limits::MESSAGE_BYTES, ..Limits::default() };
    // A copy: a set that is kept must not hold the buffer of its whole message.
    Sip::from_bytes(&*bytes, &limits)
        .map_err(|e| RequestError::new(ErrorReason::InvalidSip, e.to_string()).at("sip"))
}

/// A set that goes out in a message.
pub(crate) fn to_sip(sip: &Sip) -> Result<Bytes> {
    check_sip_bytes(sip.as_bytes().len() as u64)?;
    Ok(Bytes::copy_from_slice(sip.as_bytes()))
}

/// That a set of so many bytes fits a message.
pub(crate) fn check_sip_bytes(bytes: u64) -> Result<()> {
    let limit = limits::SIP_BYTES as u64;
    if bytes <= limit {
        return Ok(());
    }
    let message = format!("the set takes {bytes} bytes; a message holds {limit}");
    Err(RequestError::new(ErrorReason::MessageTooLarge, message).with("limit_bytes", limit))
}

/// The encoding that a client wants; `None`: the smallest.
pub(crate) fn tag(tag: i32) -> Result<Option<Tag>> {
    Ok(match SipTag::try_from(tag) {
        Ok(SipTag::Unspecified) => None,
        Ok(SipTag::Roaring) => Some(Tag::Roaring),
        Ok(SipTag::VarintDelta) => Some(Tag::VarintDelta),
        Ok(SipTag::Ranges) => Some(Tag::Ranges),
        Ok(SipTag::Gaps) => Some(Tag::Gaps),
        Err(_) => return Err(invalid(format!("{tag} is no encoding of a set")).at("tag")),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use basalt_core::schema::DataType;

    use super::*;
    use crate::{memory::MemoryPool, sets::Keeper};

    fn sets() -> Sets {
        Sets::new(1 << 20, Arc::new(MemoryPool::new(1 << 20)))
    }

    fn told<T: std::fmt::Debug>(result: Result<T>) -> (&'static str, String) {
        let error = result.unwrap_err();
        (error.reason(), error.place().unwrap_or_default().to_owned())
    }

    fn of_type(kind: pb::TypeKind) -> pb::Scope {
        let r#type = Some(pb::DataType { kind: kind.into(), precision: 0, scale: 0 });
        let key = Some(pb::KeyDomain { column: "a".into(), r#type, has_null: true });
        pb::Scope { table: "t".into(), version: 3, key, table_id: 0 }
    }

    #[test]
    fn scopes_are_read_as_they_are_written() {
        for scope_out in [of_type(pb::TypeKind::Int8), pb::Scope { key: None, ..Default::default() }] {
            assert_eq!(to_scope(scope(Some(scope_out.clone())).unwrap()), scope_out);
        }
        let expected = |reason, place: &str| (reason, place.to_owned());
        assert_eq!(told(scope(None)), expected("INVALID_QUERY", "scope"));
        let text = scope(Some(of_type(pb::TypeKind::Utf8)));
        assert_eq!(told(text), expected("TYPE_MISMATCH", "scope.key.type"));
        let nothing = scope(Some(of_type(pb::TypeKind::Unspecified)));
        assert_eq!(told(nothing), expected("INVALID_QUERY", "scope.key.type.kind"));
        assert_eq!(told(tag(5)), expected("INVALID_QUERY", "tag"));
    }

    #[test]
    fn a_handle_stands_for_a_set_of_one_scope() {
        let (sets, minute) = (sets(), Duration::from_secs(60));
        let rows = pb::Scope { key: None, ..of_type(pb::TypeKind::Int8) };
        let keep = |claimed: &pb::Scope| {
            let set = KeptSet {
                scope: scope(Some(claimed.clone())).unwrap(),
                sip: Arc::new(Sip::from_sorted_ids(&[1, 5])),
            };
            sets.keep(Keeper::default(), set, None, minute, Instant::now()).unwrap().0.to_vec()
        };
        let (values, addresses) = (keep(&of_type(pb::TypeKind::Int8)), keep(&rows));
        let by_key = |scope: Option<pb::Scope>, handle: &[u8]| {
            let set = Some(key_set::Set::Handle(handle.to_vec()));
            key_set(pb::KeySet { column: "b".into(), scope, set }, &sets)
        };
        let by_row = |scope: Option<pb::Scope>, handle: &[u8]| {
            row_set(pb::RowSet { scope, set: Some(row_set::Set::Handle(handle.to_vec())) }, &sets)
        };
        let filter = by_key(None, &values).unwrap();
        assert_eq!(filter.column, "b");
        assert_eq!(
            (filter.set.data_type, filter.set.has_null, filter.set.origin),
            (DataType::Int8, true, SipOrigin::Handle)
        );
        assert!(by_key(Some(of_type(pb::TypeKind::Int8)), &values).is_ok());
        assert_eq!(by_row(Some(rows.clone()), &addresses).unwrap().version, 3);

        let mismatch = |place: &str| ("SCOPE_MISMATCH", place.to_owned());
        assert_eq!(told(by_key(Some(of_type(pb::TypeKind::Int16)), &values)), mismatch("scope"));
        let later = pb::Scope { version: 4, ..rows };
        assert_eq!(told(by_row(Some(later), &addresses)), mismatch("scope"));
        assert_eq!(told(by_key(None, &addresses)), mismatch("scope.key"));
        assert_eq!(told(by_row(None, &values)), mismatch("scope.key"));
        assert_eq!(told(by_row(None, b"no handle")), ("SIP_NOT_FOUND", "handle".to_owned()));
    }
}
