//! The values of attributes on their way between nodes. What comes in may be anything.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use arrow_array::RecordBatch;
use basalt_core::{
    error::ErrorKind,
    exec::Control,
    lookup::Lookup,
    query::{Attribute, Query},
    schema::{DataType, Field, Reference},
    table::Table,
};
use basalt_proto::{cluster::v1 as peer, v1::batch::Rows};
use prost::bytes::Bytes;

use super::{answer::to_ipc, filter::invalid, rows::BatchReader, schema};
use crate::status::Result;

/// What the attributes of a resolved query over a table come to: descriptions, each with its bytes. A large lookup is
/// several.
pub(crate) fn to_lookups(mut query: Query, table: &Table) -> Result<Vec<(peer::Lookup, Bytes)>> {
    let mut found: Vec<Attribute> = Vec::new();
    let Ok(()) = query.attributes::<Infallible>(&mut |attribute, _| {
        if !found.contains(attribute) {
            found.push(attribute.clone());
        }
        Ok(())
    });
    let mut lookups = Vec::new();
    for Attribute { column, name, lookup } in found {
        let Some((lookup, (column_type, _))) = lookup.zip(referring(table, &column)) else { continue };
        for batch in lookup.rows(column_type)? {
            let bytes = to_ipc(&batch)?;
            let head = peer::Lookup {
                column: column.clone(),
                attribute: name.clone(),
                bytes: bytes.len() as u64,
                r#type: Some(schema::to_type(lookup.data_type())),
            };
            lookups.push((head, bytes));
        }
    }
    Ok(lookups)
}

/// Puts lookups in the places of a query's attributes: those that `heads` describe, whose bytes are `data`. They count as
/// memory of the query's.
pub(crate) fn place_lookups(
    query: &mut Query,
    table: &Table,
    (heads, data): (&[peer::Lookup], &[Bytes]),
    control: &Control,
) -> Result<()> {
    let mut parts: BTreeMap<(&str, &str), (DataType, Vec<RecordBatch>)> = BTreeMap::new();
    for (head, bytes) in heads.iter().zip(data) {
        let (column_type, _) = referring(table, &head.column)
            .ok_or_else(|| invalid(format!("column {:?} refers to nothing", head.column)))?;
        let data_type = schema::from_type(head.r#type, ErrorKind::InvalidQuery)?;
        let fields = [Field::new("key", column_type, false), Field::new("value", data_type, false)];
        let batches = BatchReader::new(&fields).read(Some(Rows::ArrowIpc(bytes.clone())))?;
        let part = parts.entry((&head.column, &head.attribute)).or_insert((data_type, Vec::new()));
        part.1.extend(batches);
    }
    let mut lookups = BTreeMap::new();
    for ((column, name), (data_type, batches)) in parts {
        let Some((column_type, reference)) = referring(table, column) else { continue };
        let lookup = Lookup::new(reference, (column_type, column_type), data_type, &batches)?;
        control.reserve(lookup.bytes())?;
        lookups.insert((column, name), Arc::new(lookup));
    }
    let Ok(()) = query.attributes::<Infallible>(&mut |attribute, _| {
        attribute.lookup = lookups.get(&(&*attribute.column, &*attribute.name)).cloned();
        Ok(())
    });
    Ok(())
}

/// The type of a column that refers to another table, and what it refers to.
fn referring<'a>(table: &'a Table, column: &str) -> Option<(DataType, &'a Reference)> {
    let field = table.schema().fields().iter().find(|field| field.name == column)?;
    Some((field.data_type, field.references.as_ref()?))
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int32Array, StringArray};
    use basalt_core::{
        query::{Expr, SelectItem},
        schema::Schema,
        value::Value,
    };

    use super::*;

    fn reference() -> Reference {
        Reference { table: "u".to_owned(), column: "k".to_owned() }
    }

    fn table() -> Table {
        let field = Field { references: Some(reference()), ..Field::new("a", DataType::Int32, true) };
        Table::new("t", 7, Schema::new(vec![field]).unwrap(), 0)
    }

    fn query(lookup: Option<Arc<Lookup>>) -> Query {
        let attribute = Attribute { column: "a".to_owned(), name: "x".to_owned(), lookup };
        Query {
            group_by: vec![Expr::Attribute(attribute)],
            select: Vec::<SelectItem>::new(),
            ..Query::default()
        }
    }

    #[test]
    fn lookups_arrive_as_they_were() {
        // More than one batch.
        let keys: ArrayRef = Arc::new(Int32Array::from_iter_values(0..100_000));
        let texts = (0..100_000).map(|i| format!("text {}", i % 7));
        let values: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        let rows = RecordBatch::try_from_iter([("k", keys), ("x", values)]).unwrap();
        let types = (DataType::Int32, DataType::Int32);
        let lookup = Arc::new(Lookup::new(&reference(), types, DataType::Utf8, &[rows]).unwrap());
        let (heads, data): (Vec<_>, Vec<_>) =
            to_lookups(query(Some(Arc::clone(&lookup))), &table()).unwrap().into_iter().unzip();
        assert_eq!(heads.len(), 2);

        let mut arrived = query(None);
        place_lookups(&mut arrived, &table(), (&heads, &data), &Control::default()).unwrap();
        let Expr::Attribute(Attribute { lookup: Some(found), .. }) = &arrived.group_by[0] else {
            panic!("no lookup");
        };
        assert!([0, 65_535, 65_536, 99_999].iter().all(|key| found.value(*key) == lookup.value(*key)));
        assert_eq!(found.value(100_000), Value::Null);

        // One of no keys arrives, too.
        let none = Arc::new(Lookup::new(&reference(), types, DataType::Utf8, &[]).unwrap());
        let (none_heads, none_data): (Vec<_>, Vec<_>) =
            to_lookups(query(Some(none)), &table()).unwrap().into_iter().unzip();
        place_lookups(&mut arrived, &table(), (&none_heads, &none_data), &Control::default()).unwrap();
        let Expr::Attribute(Attribute { lookup: Some(found), .. }) = &arrived.group_by[0] else {
            panic!("no lookup");
        };
        assert_eq!(found.value(0), Value::Null);

        // A key that came twice, bytes that are cut, a column without a reference.
        let twice = [heads[0].clone(), heads[0].clone()];
        let again = [data[0].clone(), data[0].clone()];
        let place = |heads: &[peer::Lookup], data: &[Bytes], memory| {
            place_lookups(&mut query(None), &table(), (heads, data), &Control::with_memory(memory))
        };
        assert!(place(&twice, &again, usize::MAX).is_err());
        let cut = [data[0].slice(..data[0].len() / 2)];
        assert!(place(&heads[..1], &cut, usize::MAX).is_err());
        let other = [peer::Lookup { column: "b".to_owned(), ..heads[0].clone() }];
        assert!(place(&other, &data[..1], usize::MAX).is_err());

        // What they take is the query's.
        assert!(place(&heads, &data, lookup.bytes()).is_ok());
        assert_eq!(place(&heads, &data, lookup.bytes() - 1).unwrap_err().reason(), "MEMORY_LIMIT");
    }
}
