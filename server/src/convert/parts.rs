//! What nodes send each other: sets, and the parts of answers. What comes in may be anything.

use std::sync::Arc;

use arrow_array::RecordBatch;
use basalt_core::{
    encoding::TextMembers,
    error::ErrorKind,
    exec::{self, BuiltSet, Part, Statistics},
    limits::{MAX_PART_BYTES, MAX_TEXT_BYTES},
    plan::{Plan, Shape},
    schema::DataType,
};
use basalt_proto::{
    cluster::v1::{JoinSet, TextForm, join_set::Form},
    v1::{self as pb, ErrorReason, batch::Rows},
};
use basalt_sip::{Limits, Sip};
use prost::{Message as _, bytes::Bytes};

use super::{
    answer::{message_bytes, to_ipc},
    filter::invalid,
    rows::BatchReader,
    schema,
};
use crate::{
    limits,
    status::{RequestError, Result},
};

/// A set's description, and its bytes.
pub(crate) fn to_join_set(set: &BuiltSet) -> (JoinSet, Bytes) {
    let bytes = set_bytes(set);
    let (form, has_null) = match set {
        BuiltSet::Keys { data_type, has_null, .. } => (Form::Keys(schema::to_type(*data_type)), *has_null),
        BuiltSet::Texts { has_null, .. } => (Form::Texts(TextForm {}), *has_null),
    };
    (JoinSet { form: Some(form), has_null, bytes: bytes.len() as u64 }, bytes)
}

/// A set from its description and its bytes.
pub(crate) fn join_set(head: &JoinSet, bytes: &Bytes) -> Result<BuiltSet> {
    let data_type = match &head.form {
        Some(Form::Keys(data_type)) => schema::from_type(Some(*data_type), ErrorKind::InvalidQuery)?,
        Some(Form::Texts(_)) => DataType::Utf8,
        None => return Err(invalid("a set without a form, or of a form that is not known here")),
    };
    set_of(data_type, head.has_null, bytes)
}

/// The distinct values of a column, as the answer to a selection.
pub(crate) fn to_values(set: &BuiltSet) -> Bytes {
    let (BuiltSet::Keys { has_null, .. } | BuiltSet::Texts { has_null, .. }) = set;
    let mut bytes = vec![u8::from(*has_null)];
    bytes.extend_from_slice(&set_bytes(set));
    bytes.into()
}

/// The values of a column of this type from what [`to_values`] made.
pub(crate) fn values(data_type: DataType, bytes: &Bytes) -> Result<BuiltSet> {
    match bytes.first() {
        Some(has_null @ (0 | 1)) => set_of(data_type, *has_null == 1, &bytes.slice(1..)),
        _ => Err(invalid("values without a head")),
    }
}

fn set_bytes(set: &BuiltSet) -> Bytes {
    match set {
        BuiltSet::Keys { sip, .. } => Bytes::copy_from_slice(sip.as_bytes()),
        BuiltSet::Texts { texts, .. } => {
            let length = |text: &str| u32::try_from(text.len()).unwrap_or(u32::MAX);
            let lengths = texts.texts().iter().map(|text| length(text)).collect();
            pb::Texts { data: texts.texts().concat().into_bytes(), lengths }.encode_to_vec().into()
        }
    }
}

fn set_of(data_type: DataType, has_null: bool, bytes: &Bytes) -> Result<BuiltSet> {
    if data_type == DataType::Utf8 {
        return Ok(BuiltSet::Texts { texts: Arc::new(texts(bytes)?), has_null });
    }
    if !data_type.has_key_domain() {
        return Err(RequestError::new(
            ErrorReason::TypeMismatch,
            format!("values of type {data_type} are no ids"),
        ));
    }
    Ok(BuiltSet::Keys { data_type, has_null, sip: Arc::new(addresses(bytes)?) })
}

/// A set of ids. Its bytes are bounded where they come in.
pub(crate) fn addresses(bytes: &Bytes) -> Result<Sip> {
    let limits = Limits { body_bytes: bytes.len(), ..Limits::default() };
    Sip::from_bytes(&**bytes, &limits).map_err(|e| RequestError::new(ErrorReason::InvalidSip, e.to_string()))
}

/// Texts that ascend.
fn texts(bytes: &Bytes) -> Result<TextMembers> {
    let pb::Texts { data, lengths } =
        pb::Texts::decode(&**bytes).map_err(|e| invalid(format!("texts are malformed: {e}")))?;
    let data = std::str::from_utf8(&data).map_err(|_| invalid("texts are not UTF-8"))?;
    let (mut texts, mut rest): (Vec<Box<str>>, _) = (Vec::with_capacity(lengths.len()), data);
    for length in lengths {
        let length = length as usize;
        let (text, others) = rest
            .split_at_checked(length)
            .filter(|_| length <= MAX_TEXT_BYTES)
            .ok_or_else(|| invalid("texts have other lengths"))?;
        if texts.last().is_some_and(|last| **last >= *text) {
            return Err(invalid("texts do not ascend"));
        }
        texts.push(text.into());
        rest = others;
    }
    if rest.is_empty() { Ok(texts.into_iter().collect()) } else { Err(invalid("texts have other lengths")) }
}

/// Hands out a part of an answer as messages: groups as their bytes, sorted rows as an Arrow IPC stream, other rows as
/// their fragment's id, its lowest byte first, a zero and such a stream; in place of the zero may stand the code of
/// the reason why there are no rows.
pub(crate) fn to_messages(part: Part, sink: &mut dyn FnMut(Bytes) -> Result<()>) -> Result<()> {
    let head = |fragment: u32, code: u8| [&fragment.to_le_bytes()[..], &[code]].concat();
    match part {
        Part::Groups(bytes) => sink(bytes.into()),
        Part::Sorted(batch) => in_messages(&batch, &[], sink),
        Part::Rows { fragment, batch } => in_messages(&batch, &head(fragment, 0), sink),
        Part::Failed { fragment, error } => {
            sink(head(fragment, exec::failure_code(&error).unwrap_or(0)).into())
        }
    }
}

fn in_messages(batch: &RecordBatch, head: &[u8], sink: &mut dyn FnMut(Bytes) -> Result<()>) -> Result<()> {
    let rows = batch.num_rows();
    if message_bytes(batch) > limits::ANSWER_MESSAGE_BYTES && rows > 1 {
        let half = rows / 2;
        in_messages(&batch.slice(0, half), head, sink)?;
        return in_messages(&batch.slice(half, rows - half), head, sink);
    }
    let bytes = [head, &to_ipc(batch)?].concat();
    if bytes.len() <= MAX_PART_BYTES {
        return sink(bytes.into());
    }
    let message =
        format!("a row of the answer takes {} bytes; a message holds {MAX_PART_BYTES}", bytes.len());
    Err(RequestError::new(ErrorReason::MessageTooLarge, message).with("limit_bytes", MAX_PART_BYTES as u64))
}

/// Reads the messages of the parts of a plan's answer.
pub(crate) enum PartReader {
    Groups,
    Rows(BatchReader),
    Sorted(BatchReader),
}

impl PartReader {
    pub(crate) fn new(plan: &Plan) -> Self {
        let reader = || BatchReader::of_forms(plan.part_schema().fields());
        match plan.shape {
            Shape::Groups { .. } => Self::Groups,
            Shape::Rows if plan.order.is_empty() => Self::Rows(reader()),
            Shape::Rows => Self::Sorted(reader()),
        }
    }

    /// The parts in a message.
    pub(crate) fn read(&self, message: Bytes) -> Result<Vec<Part>> {
        let batches = |reader: &BatchReader, ipc| reader.read(Some(Rows::ArrowIpc(ipc)));
        Ok(match self {
            Self::Groups => vec![Part::Groups(message.into())],
            Self::Sorted(reader) => batches(reader, message)?.into_iter().map(Part::Sorted).collect(),
            Self::Rows(reader) => {
                let [a, b, c, d, code, ..] = message[..] else {
                    return Err(invalid("rows without their fragment"));
                };
                let fragment = u32::from_le_bytes([a, b, c, d]);
                if let Some(error) = exec::failure(code) {
                    return Ok(vec![Part::Failed { fragment, error }]);
                }
                let batches = batches(reader, message.slice(5..))?;
                batches.into_iter().map(|batch| Part::Rows { fragment, batch }).collect()
            }
        })
    }
}

/// What a node says that it did.
pub(crate) fn from_statistics(statistics: &pb::Statistics) -> Statistics {
    Statistics {
        rows: statistics.rows,
        fragments: statistics.fragments,
        blocks: statistics.blocks,
        blocks_pruned: statistics.blocks_pruned,
        blocks_full: statistics.blocks_full,
        rows_selected: statistics.rows_selected,
    }
}

/// What was done for two sets of fragments.
pub(crate) fn add_statistics(a: pb::Statistics, b: pb::Statistics) -> pb::Statistics {
    pb::Statistics {
        rows: a.rows.saturating_add(b.rows),
        fragments: a.fragments.saturating_add(b.fragments),
        blocks: a.blocks.saturating_add(b.blocks),
        blocks_pruned: a.blocks_pruned.saturating_add(b.blocks_pruned),
        blocks_full: a.blocks_full.saturating_add(b.blocks_full),
        rows_selected: a.rows_selected.saturating_add(b.rows_selected),
        ..a
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(ids: &[u64]) -> BuiltSet {
        let sip = Arc::new(Sip::from_sorted_ids(ids));
        BuiltSet::Keys { data_type: DataType::Decimal { precision: 9, scale: 2 }, has_null: true, sip }
    }

    fn texts_of(texts: &[&str]) -> BuiltSet {
        let texts: TextMembers = texts.iter().map(|text| Box::from(*text)).collect();
        BuiltSet::Texts { texts: Arc::new(texts), has_null: false }
    }

    #[test]
    fn sets_come_back() {
        for set in [keys(&[]), keys(&[1, 7, u64::MAX]), texts_of(&[]), texts_of(&["", "a", "ä", "b"])] {
            let (head, bytes) = to_join_set(&set);
            assert_eq!(join_set(&head, &bytes).unwrap(), set);
            let data_type =
                if let BuiltSet::Keys { data_type, .. } = set { data_type } else { DataType::Utf8 };
            assert_eq!(values(data_type, &to_values(&set)).unwrap(), set);
        }
    }

    #[test]
    fn what_is_no_set_is_an_error() {
        let (head, bytes) = to_join_set(&keys(&[1, 2, 3]));
        assert_eq!(join_set(&head, &bytes.slice(1..)).unwrap_err().reason(), "INVALID_SIP");
        assert_eq!(join_set(&JoinSet::default(), &bytes).unwrap_err().reason(), "INVALID_QUERY");
        let float = Form::Keys(schema::to_type(DataType::Float64));
        let head = JoinSet { form: Some(float), ..head };
        assert_eq!(join_set(&head, &bytes).unwrap_err().reason(), "TYPE_MISMATCH");
        assert!(values(DataType::Int32, &Bytes::new()).is_err());
        for (data, lengths) in [("ab", vec![1]), ("ab", vec![3]), ("ba", vec![1, 1]), ("aa", vec![1, 1])] {
            let wrong = pb::Texts { data: data.into(), lengths }.encode_to_vec();
            assert_eq!(texts(&wrong.into()).unwrap_err().reason(), "INVALID_QUERY");
        }
        let wrong = pb::Texts { data: vec![0xff], lengths: vec![1] }.encode_to_vec();
        assert!(texts(&wrong.into()).is_err());
    }
}
