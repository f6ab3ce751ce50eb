//! The footer: what the crate would allocate, and how deep it would recurse.

use super::{
    FIXED_BYTES, SCHEMA_DEPTH,
    thrift::{LIST, STRUCT, Walk},
};

/// Fields of the footer.
const SCHEMA: i64 = 2;
const ROW_GROUPS: i64 = 4;
/// Fields of an element of the schema.
const TYPE_LENGTH: i64 = 2;
const CHILDREN: i64 = 5;
/// More row groups have no number.
const MOST_GROUPS: usize = 1 << 15;

/// That a footer, without its length and what stands behind that, can be decoded.
///
/// # Errors
/// What is wrong with it.
pub fn check_footer(footer: &[u8]) -> Result<(), String> {
    let mut wrong = None;
    let mut schema = Schema::default();
    let walked = Walk::new(footer).fields(|walk, field, kind| {
        if !matches!(field, SCHEMA | ROW_GROUPS) || kind != LIST {
            return Some(false);
        }
        let (size, kind) = walk.list()?;
        if field == ROW_GROUPS && size > MOST_GROUPS {
            wrong = Some(format!("its footer has {size} row groups"));
            return None;
        }
        for left in (0..size).rev() {
            if field == ROW_GROUPS || kind != STRUCT {
                walk.skip(kind)?;
            } else if let Err(why) = schema.element(walk, left)? {
                wrong = Some(why);
                return None;
            }
        }
        Some(true)
    });
    match (walked, wrong) {
        (_, Some(why)) => Err(why),
        (None, None) => Err("its footer is malformed".to_owned()),
        (Some(()), None) => Ok(()),
    }
}

/// A schema, whose elements come with what is in them behind them.
#[derive(Default)]
struct Schema {
    /// How many are still to come, of each group around the next one.
    open: Vec<usize>,
}

impl Schema {
    /// An element, behind which so many are left.
    fn element(&mut self, walk: &mut Walk<'_>, left: usize) -> Option<Result<(), String>> {
        let (mut children, mut length) = (0, 0);
        walk.fields(|walk, field, _| {
            match field {
                CHILDREN => children = walk.integer()?,
                TYPE_LENGTH => length = walk.integer()?,
                _ => return Some(false),
            }
            Some(true)
        })?;
        while self.open.last() == Some(&0) {
            self.open.pop();
        }
        if let Some(open) = self.open.last_mut() {
            *open -= 1;
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
            self.open.push(children);
        }
        if self.open.len() > SCHEMA_DEPTH {
            return Some(Err(format!("its columns nest deeper than {SCHEMA_DEPTH} levels")));
        }
        Some(Ok(()))
    }
}
