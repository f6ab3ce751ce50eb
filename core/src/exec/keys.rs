//! The distinct values of a column over the rows that a filter selects, as a set of ids.

use std::sync::Arc;

use basalt_sip::Sip;
use hashbrown::HashSet;

use super::{Block, Control, Statistics, Work, sets, vector::Batch};
use crate::{
    encoding::TextMembers,
    error::{Error, ErrorKind, Result},
    fragment::Values,
    keys,
    mask::{Mask, selects},
    plan::Plan,
    query::Filter,
    schema::DataType,
    table::{Snapshot, Table, no_column},
};

/// Distinct values of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectedKeys {
    /// What the ids are values of.
    pub data_type: DataType,
    /// The column is null in a selected row.
    pub has_null: bool,
    /// The ids; see [`KeySet`](crate::query::KeySet).
    pub sip: Sip,
}

/// The distinct values of column `key` over the rows that a filter selects.
///
/// # Errors
/// [`ErrorKind::ColumnNotFound`]; [`ErrorKind::TypeMismatch`] for floats and text, which are no ids; and those of
/// [`select`](super::select).
pub fn select_keys(
    table: &Table,
    snapshot: &Snapshot,
    key: &str,
    filter: Option<&Filter>,
    control: &Control,
) -> Result<(SelectedKeys, Statistics)> {
    let (slot, data_type) = column(table, key).map_err(|e| e.at("key"))?;
    if !data_type.has_key_domain() {
        let message = format!("columns of type {data_type} have no key domain");
        return Err(Error::new(ErrorKind::TypeMismatch, message).at("key"));
    }
    let (slots, pred) = Plan::filter(table, snapshot, filter)?;
    sets::prepare(pred.as_ref(), snapshot, control)?;
    let mut work = Work::new(snapshot, pred.as_ref(), control)?;
    let mut ids = Vec::new();
    let mut has_null = false;
    work.run(
        &slots,
        8,
        false,
        |block, mask| block_ids(block, mask, slot),
        |_, (of_block, null)| {
            ids.extend(of_block);
            has_null |= null;
            Ok(true)
        },
    )?;
    ids.sort_unstable();
    ids.dedup();
    let sip = Sip::from_sorted_ids(&ids);
    Ok((SelectedKeys { data_type, has_null, sip }, work.statistics))
}

/// The place and type of a column.
fn column(table: &Table, name: &str) -> Result<(usize, DataType)> {
    let slot = table.schema().index_of(name).ok_or_else(|| no_column(table, name))?;
    Ok((slot, table.schema().fields()[slot].data_type))
}

/// The distinct ids of a block, and whether a selected row has none.
fn block_ids(block: Block<'_>, mask: &Mask, slot: usize) -> Result<(Vec<u64>, bool)> {
    let column = &block.fragment.columns()[slot];
    let mut ids = Vec::new();
    let mut has_null = false;
    let mut rows = Vec::new();
    block.for_each_batch(mask, |batch| {
        batch.selection(&mut rows);
        let valid = column.validity_words(batch.first_row(), batch.rows());
        let mut values = vec![0; batch.rows()];
        if let Some(keys) = column.keys() {
            keys.decode(batch.first_row(), &mut values);
        }
        for row in &rows {
            let row = *row as usize;
            if !selects(valid.as_deref(), row) {
                has_null = true;
            } else if column.data_type() == DataType::UInt64 {
                ids.push(keys::to_u64(values[row]));
            } else {
                ids.push(values[row].cast_unsigned());
            }
        }
        Ok(())
    })?;
    ids.sort_unstable();
    ids.dedup();
    Ok((ids, has_null))
}

/// The distinct texts of column `key`, as [`select_keys`] has the values of other types, and whether it is null
/// in a selected row.
pub(super) fn select_texts(
    table: &Table,
    snapshot: &Snapshot,
    slot: usize,
    filter: Option<&Filter>,
    control: &Control,
) -> Result<(Arc<TextMembers>, bool)> {
    let (slots, pred) = Plan::filter(table, snapshot, filter)?;
    sets::prepare(pred.as_ref(), snapshot, control)?;
    let mut work = Work::new(snapshot, pred.as_ref(), control)?;
    let mut texts: HashSet<&str> = HashSet::new();
    let mut has_null = false;
    work.run(
        &slots,
        16,
        false,
        |block, mask| {
            let column = &block.fragment.columns()[slot];
            let mut distinct = HashSet::new();
            let mut has_null = false;
            let mut rows = Vec::new();
            block.for_each_batch(mask, |batch: &Batch<'_, '_>| {
                batch.selection(&mut rows);
                let valid = column.validity_words(batch.first_row(), batch.rows());
                let mut values = Vec::with_capacity(batch.rows());
                if let Values::Text(texts) = column.values() {
                    texts.decode(batch.first_row(), batch.rows(), &mut values);
                }
                for row in &rows {
                    let row = *row as usize;
                    if selects(valid.as_deref(), row) {
                        distinct.insert(values[row]);
                    } else {
                        has_null = true;
                    }
                }
                Ok(())
            })?;
            Ok((distinct, has_null))
        },
        |_, (distinct, null)| {
            texts.extend(distinct);
            has_null |= null;
            Ok(true)
        },
    )?;
    Ok((Arc::new(texts.into_iter().map(Box::from).collect()), has_null))
}
