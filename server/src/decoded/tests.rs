use std::collections::BTreeSet;

use basalt_proto::v1::{self as pb, expr, filter, value};
use prost::Message;
use prost_types::FileDescriptorSet;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use super::*;

fn shape(service: &str, method: &str) -> &'static Shape {
    Shape::of_request(service, method).unwrap()
}

fn query() -> &'static Shape {
    shape("basalt.v1.QueryService", "Query")
}

fn column() -> pb::Expr {
    pb::Expr { kind: Some(expr::Kind::Column("a".into())) }
}

fn list(values: Vec<pb::Value>) -> pb::QueryRequest {
    let list = filter::Kind::In(pb::In { expr: Some(column()), values });
    pb::QueryRequest {
        table: "t".into(),
        select: vec![pb::SelectItem { expr: Some(column()), name: "a".into() }],
        filter: Some(pb::Filter { kind: Some(list) }),
        ..Default::default()
    }
}

fn number(value: i64) -> pb::Value {
    pb::Value { kind: Some(value::Kind::Int(value)) }
}

fn columns() -> pb::WriteRequest {
    let values = |values| pb::Column { validity: vec![255; 125], values: Some(values) };
    use pb::column::Values;
    let columns = vec![
        values(Values::Int64s(pb::Int64s { values: vec![7; 1000] })),
        values(Values::Bools(pb::Bools { values: vec![true; 1000] })),
        values(Values::Texts(pb::Texts { data: vec![b'x'; 3000], lengths: vec![3; 1000] })),
    ];
    let rows = pb::batch::Rows::Columns(pb::RecordBatch { rows: 1000, columns });
    pb::WriteRequest {
        kind: Some(pb::write_request::Kind::Batch(pb::Batch { sequence: 1, rows: Some(rows) })),
    }
}

fn varint(mut value: usize, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    to.push(value.try_into().unwrap());
}

/// A message of so many bytes with nothing but empty messages in one field, which stands at the end of a path.
fn empties(path: &[u32], bytes: usize) -> Vec<u8> {
    let (last, above) = path.split_last().unwrap();
    let mut one = Vec::new();
    varint(((*last << 3) | 2) as usize, &mut one);
    one.push(0);
    // What stands around them takes a few bytes.
    let message = one.repeat((bytes - 100) / one.len());
    above.iter().rev().fold(message, |inner, number| {
        let mut outer = Vec::with_capacity(inner.len() + 8);
        varint(((*number << 3) | 2) as usize, &mut outer);
        varint(inner.len(), &mut outer);
        outer.extend_from_slice(&inner);
        outer
    })
}

/// The ways to repeated messages, through each field once.
fn ways(
    shape: &'static Shape,
    path: &mut Vec<u32>,
    seen: &mut BTreeSet<*const Shape>,
    out: &mut Vec<Vec<u32>>,
) {
    for field in shape.fields {
        let Holds::Message(inner) = field.holds else { continue };
        path.push(field.number);
        if field.repeated {
            out.push(path.clone());
        }
        if seen.insert(inner) {
            ways(inner, path, seen, out);
        }
        path.pop();
    }
}

/// Every method, of clients and of nodes: whatever may be there many times is refused where it is there too often, and
/// what the decoder would have made of it is never made.
#[test]
fn empty_messages_are_refused_in_every_field_of_every_method() {
    let set = FileDescriptorSet::decode(basalt_proto::PEER_FILE_DESCRIPTOR_SET).unwrap();
    let mut refused = 0;
    for file in &set.file {
        for service in &file.service {
            let name = format!("{}.{}", file.package(), service.name());
            let is_peer = file.package().contains("cluster");
            let (bytes, most) = match is_peer {
                true => (limits::PEER_MESSAGE_BYTES, limits::PEER_DECODED_BYTES),
                false => (limits::MESSAGE_BYTES, limits::DECODED_BYTES),
            };
            for method in &service.method {
                let shape = shape(&name, method.name());
                let mut found = Vec::new();
                ways(shape, &mut Vec::new(), &mut BTreeSet::new(), &mut found);
                for way in found {
                    let message = empties(&way, bytes);
                    let error = Decoded::new(shape, message.len(), most).read(&message).unwrap_err();
                    assert_eq!(error.reason(), "MESSAGE_TOO_LARGE", "{name}/{}: {way:?}", method.name());
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn what_it_takes_is_what_the_decoder_makes() {
    let filters = 10_000;
    let and = filter::Kind::And(pb::And { filters: vec![pb::Filter::default(); filters] });
    let asked = pb::QueryRequest { filter: Some(pb::Filter { kind: Some(and) }), ..Default::default() };
    let taken = bytes(query(), &asked.encode_to_vec());
    let least = (filters * size_of::<pb::Filter>()) as u64;
    assert!(taken >= least && taken < least + 2000, "{taken} for {least}");

    let asked = list((0..10_000).map(number).collect());
    let taken = bytes(query(), &asked.encode_to_vec());
    let least = 10_000 * size_of::<pb::Value>() as u64;
    assert!(taken >= least && taken < least + 2000, "{taken} for {least}");

    // Each of many small vectors has room for some.
    let inner = filter::Kind::And(pb::And { filters: vec![pb::Filter::default()] });
    let inner = pb::Filter { kind: Some(inner) };
    let and = filter::Kind::And(pb::And { filters: vec![inner; filters] });
    let asked = pb::QueryRequest { filter: Some(pb::Filter { kind: Some(and) }), ..Default::default() };
    let decoded = pb::QueryRequest::decode(&*asked.encode_to_vec()).unwrap();
    let Some(filter::Kind::And(and)) = decoded.filter.unwrap().kind else { panic!("an and") };
    let rooms = and.filters.iter().map(|filter| match &filter.kind {
        Some(filter::Kind::And(and)) => and.filters.capacity(),
        _ => panic!("an and"),
    });
    let least = ((filters + rooms.sum::<usize>()) * size_of::<pb::Filter>()) as u64;
    let taken = bytes(query(), &asked.encode_to_vec());
    assert!(taken >= least && taken < 2 * least, "{taken} for {least}");

    let written = columns();
    let taken = bytes(shape("basalt.v1.IngestService", "Write"), &written.encode_to_vec());
    // Eight bytes a number, one a bool, four a length, and the texts.
    assert!((16_000..17_500).contains(&taken), "{taken}");
    // What the message shares is not copied.
    let rows = pb::batch::Rows::ArrowIpc(vec![1; 100_000].into());
    let kind = pb::write_request::Kind::Batch(pb::Batch { sequence: 1, rows: Some(rows) });
    let message = pb::WriteRequest { kind: Some(kind) }.encode_to_vec();
    assert!(bytes(shape("basalt.v1.IngestService", "Write"), &message) < 1000);
}

/// The longest lists that a message holds pass.
#[test]
fn honest_messages_pass() {
    let mut values = Vec::new();
    while values.len() * 4 < limits::MESSAGE_BYTES - 200 {
        values.push(number(1));
    }
    let message = list(values).encode_to_vec();
    assert!(message.len() > limits::MESSAGE_BYTES - 1000 && message.len() < limits::MESSAGE_BYTES);
    Decoded::new(query(), message.len(), limits::DECODED_BYTES).read(&message).unwrap();

    let lengths = vec![1; limits::MESSAGE_BYTES / 2 - 100];
    let texts = pb::Texts { data: vec![b'x'; lengths.len()], lengths };
    let values = Some(pb::column::Values::Texts(texts));
    let columns = vec![pb::Column { validity: Vec::new(), values }];
    let rows = pb::batch::Rows::Columns(pb::RecordBatch { rows: 1, columns });
    let kind = pb::write_request::Kind::Batch(pb::Batch { sequence: 1, rows: Some(rows) });
    let message = pb::WriteRequest { kind: Some(kind) }.encode_to_vec();
    let write = shape("basalt.v1.IngestService", "Write");
    Decoded::new(write, message.len(), limits::DECODED_BYTES).read(&message).unwrap();
}

/// A text that looks like messages is a text, and what nobody knows is nothing.
#[test]
fn texts_are_not_looked_into() {
    let text = String::from_utf8([0x0a, 0x00].repeat(1_000_000)).unwrap();
    let asked = pb::SqlRequest { sql: text, ..Default::default() };
    let sql = shape("basalt.v1.SqlService", "Query");
    let taken = bytes(sql, &asked.encode_to_vec());
    assert!((2_000_000..2_001_000).contains(&taken), "{taken}");
    let unknown = empties(&[99], 1_000_000);
    assert!(bytes(sql, &unknown) < 1000);
    // Deeper than the decoder goes nothing is made.
    let mut deep = pb::Filter::default();
    for _ in 0..5000 {
        deep = pb::Filter { kind: Some(filter::Kind::Not(Box::new(deep))) };
    }
    let asked = pb::QueryRequest { filter: Some(deep), ..Default::default() };
    assert!(bytes(query(), &asked.encode_to_vec()) < 200 * (limits::MESSAGE_DEPTH as u64 + 1));
    // Whoever drops it goes as deep.
    let mut left = asked.filter;
    while let Some(filter::Kind::Not(inner)) = left.and_then(|filter| filter.kind) {
        left = Some(*inner);
    }
}

/// What the decoder takes the walk takes, however it is cut, and finds the same of it; but for groups, which nobody sends.
#[test]
fn it_refuses_nothing_that_the_decoder_takes() {
    let whole = [
        list((0..50).map(number).collect()).encode_to_vec(),
        list(vec![pb::Value { kind: Some(value::Kind::Text("abc".into())) }; 20]).encode_to_vec(),
    ];
    let mut random = StdRng::seed_from_u64(7);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..40_000 {
        let mut message = whole[random.random_range(0..whole.len())].clone();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..message.len());
            match random.random_range(0..3) {
                0 => message[at] = random.random(),
                1 => message.truncate(at.max(1)),
                _ => message.insert(at, random.random()),
            }
        }
        let mut walked = Decoded::new(query(), message.len(), u64::MAX);
        let at_once = walked.read(&message);
        let mut in_pieces = Decoded::new(query(), message.len(), u64::MAX);
        let size = random.random_range(1..9);
        let pieces = message.chunks(size).try_for_each(|piece| in_pieces.read(piece));
        assert_eq!(at_once.is_ok(), pieces.is_ok(), "{message:?}");
        assert_eq!(walked.bytes(), in_pieces.bytes(), "{message:?}");
        match (pb::QueryRequest::decode(&*message), at_once) {
            (Ok(_), Ok(())) => taken += 1,
            (Ok(_), Err(error)) => assert!(error.message().contains("of no type"), "{error:?} {message:?}"),
            (Err(_), _) => refused += 1,
        }
    }
    assert!(taken > 1000 && refused > 1000, "{taken} {refused}");
}
