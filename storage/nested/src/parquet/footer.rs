//! The footer: what the crate would allocate, and how deep it would recurse.

use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::{
    format::{CHILDREN, ELEMENT, FILE, GROUP, GROUP_BYTES, NAME, ROW_GROUPS, SCHEMA, TYPE_LENGTH},
    limits::{self, CHUNKS, DECODED_BYTES, FIXED_BYTES, SCHEMA_DEPTH, SCHEMA_ELEMENTS},
    thrift::{Of, Walk},
};

/// How often the bytes of a footer are held when it is decoded: names in the schema and in Arrow's, and once more what
/// allocations are larger than what is in them.
const TIMES: u64 = 3;
/// What an element of the schema takes, its name and its path apart: as it is read, as a type, as a column, and as Arrow's.
const ELEMENT_BYTES: u64 = 1024;
/// What a part of a column's path takes beside its characters.
const PART_BYTES: u64 = 48;
/// What a column of a row group takes, with the allocations of its statistics.
const CHUNK_BYTES: u64 = size_of::<ColumnChunkMetaData>() as u64 + 256;

/// That a footer, without its length and what stands behind that, can be decoded. The answer is the bytes that it takes
/// when it is, about, and no less.
///
/// # Errors
/// What is wrong with it.
pub fn check_footer(footer: &[u8]) -> Result<u64, String> {
    let mut wrong = None;
    let (mut schema, mut groups) = (Schema::default(), 0);
    let mut walk = Walk::new(footer);
    let walked = walk.fields(FILE, |walk, field| {
        let checked = match field {
            SCHEMA => schema.walk(walk)?,
            ROW_GROUPS => {
                groups = walk.list(Of::Struct(GROUP))?;
                if groups > limits::ROW_GROUPS {
                    Err(format!("its footer has {groups} row groups"))
                } else {
                    (0..groups).try_for_each(|_| walk.known(Of::Struct(GROUP)))?;
                    Ok(())
                }
            }
            _ => return Some(false),
        };
        wrong = checked.err();
        wrong.is_none().then_some(true)
    });
    match (walked, wrong) {
        (_, Some(why)) => return Err(why),
        (None, None) => return Err("its footer is malformed".to_owned()),
        (Some(()), None) => {}
    }
    let chunks = groups.saturating_mul(schema.leaves);
    if chunks > CHUNKS {
        let leaves = schema.leaves;
        return Err(format!("{groups} row groups of {leaves} columns each; the limit is {CHUNKS} in all"));
    }
    let parts = [
        size_of::<ParquetMetaData>() as u64,
        TIMES * footer.len() as u64,
        ELEMENT_BYTES * schema.elements as u64,
        schema.paths,
        (GROUP_BYTES * groups) as u64,
        CHUNK_BYTES * chunks as u64,
        walk.room,
    ];
    let bytes = parts.into_iter().fold(0, u64::saturating_add);
    if bytes > DECODED_BYTES {
        return Err(format!(
            "its footer takes {bytes} bytes when it is decoded; the limit is {DECODED_BYTES}"
        ));
    }
    Ok(bytes)
}

/// A schema, whose elements come with what is in them behind them.
#[derive(Default)]
struct Schema {
    /// Of each group around the next element, how many are still to come, and what the path to it takes.
    open: Vec<(usize, u64)>,
    elements: usize,
    leaves: usize,
    /// What the paths of all columns take: each has the names of what is around it.
    paths: u64,
}

impl Schema {
    fn walk(&mut self, walk: &mut Walk<'_>) -> Option<Result<(), String>> {
        self.elements = walk.list(Of::Struct(ELEMENT))?;
        if self.elements > SCHEMA_ELEMENTS {
            let elements = self.elements;
            return Some(Err(format!(
                "its schema has {elements} columns and parts of columns; the limit is {SCHEMA_ELEMENTS}"
            )));
        }
        for left in (0..self.elements).rev() {
            if let Err(why) = self.element(walk, left)? {
                return Some(Err(why));
            }
        }
        Some(Ok(()))
    }

    /// An element, behind which so many are left.
    fn element(&mut self, walk: &mut Walk<'_>, left: usize) -> Option<Result<(), String>> {
        let (mut children, mut length, mut name) = (0, 0, 0);
        walk.fields(ELEMENT, |walk, field| {
            match field {
                CHILDREN => children = walk.int()?,
                TYPE_LENGTH => length = walk.int()?,
                NAME => name = walk.binary()?,
                _ => return Some(false),
            }
            Some(true)
        })?;
        while self.open.last().is_some_and(|(open, _)| *open == 0) {
            self.open.pop();
        }
        let mut path = PART_BYTES + name as u64;
        if let Some((open, around)) = self.open.last_mut() {
            *open -= 1;
            path += *around;
        }
        if length > FIXED_BYTES {
            return Some(Err(format!(
                "a column of values of {length} bytes each; the limit is {FIXED_BYTES}"
            )));
        }
        let Some(children) = usize::try_from(children).ok().filter(|children| *children <= left) else {
            return Some(Err(format!("its footer has a column with {children} parts, and {left} in all")));
        };
        if children > 0 {
            self.open.push((children, path));
        } else {
            self.leaves += 1;
            self.paths = self.paths.saturating_add(path);
        }
        if self.open.len() > SCHEMA_DEPTH {
            return Some(Err(format!("its columns nest deeper than {SCHEMA_DEPTH} levels")));
        }
        Some(Ok(()))
    }
}
