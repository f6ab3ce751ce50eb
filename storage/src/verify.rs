//! Reading all that a table has, to find what is damaged before somebody needs it.

use std::{ops::Bound, sync::Arc};

use basalt_core::{
    invariant::{count, index},
    limits::FRAGMENT_ROWS,
};

use crate::{
    data::{
        catching,
        digest::{self, Piece},
        footer,
    },
    deletions,
    error::{MISSING, Result, StorageError},
    log::{DataFile, FragmentEntry, TableLog, TableState},
    places,
};

/// Something of a table that is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file, with the store's address.
    pub path: String,
    /// The column; `None` when it is not one alone.
    pub column: Option<String>,
    /// What is wrong.
    pub why: String,
}

/// What reading a file has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Bytes of it and of its deletion vector.
    pub bytes: u64,
    /// What is damaged.
    pub damage: Vec<Damage>,
}

impl Verified {
    /// Takes in what a part came to: damage is noted, a store that fails is an error.
    fn note(&mut self, column: Option<&str>, read: Result<()>) -> Result<bool> {
        match read {
            Ok(()) => Ok(true),
            Err(error) => {
                let (path, why) = match error {
                    StorageError::Corrupt { path, why } => (path, why),
                    StorageError::Missing { path } => (path, MISSING.to_owned()),
                    StorageError::Limit { ref path, .. } => (path.clone(), error.to_string()),
                    other => return Err(other),
                };
                self.damage.push(Damage { path, column: column.map(str::to_owned), why });
                Ok(false)
            }
        }
    }
}

impl TableState {
    /// Its data files whose place in the log is greater than `after`, by that.
    pub fn files_after<'a>(&'a self, after: &'a str) -> impl Iterator<Item = &'a Arc<DataFile>> {
        let after = (Bound::Excluded(after), Bound::Unbounded);
        self.files.range::<_, str>(after).map(|(_, file)| file)
    }
}

impl TableLog {
    /// Reads a data file of a state and its deletion vector, all of both. Where the log has digests of the file they
    /// are compared; of other files every column of the table is decoded, one after the other.
    ///
    /// # Errors
    /// [`StorageError::Store`]: whether the file is damaged is not known.
    pub async fn verify(&self, state: &TableState, file: &Arc<DataFile>) -> Result<Verified> {
        let vector = file.deletion_vector_bytes();
        let mut found = Verified { bytes: file.bytes().saturating_add(vector), damage: Vec::new() };
        // Default: a file of more rows has no deletion vector of Basalt's, whose offsets these rows bound.
        let rows = u32::try_from(file.rows()).unwrap_or(u32::MAX);
        let whole = FragmentEntry { id: 0, file: Arc::clone(file), first_row: 0, rows };
        let deleted = deletions::verify(self.store(), &whole).await;
        found.note(None, deleted)?;
        if file.digests().is_some() {
            self.compare(file, &mut found).await?;
        } else {
            self.decode(state, file, &mut found).await?;
        }
        Ok(found)
    }

    /// Compares a file with the digests that the log has.
    async fn compare(&self, file: &Arc<DataFile>, found: &mut Verified) -> Result<()> {
        let metadata = match footer::of_file(self.store(), self.seen(), file).await {
            Ok(metadata) => metadata,
            Err(error) => return found.note(None, Err(error)).map(|_| ()),
        };
        let path = places::data_file(self.store(), file)?;
        for (group, chunks) in metadata.row_groups().iter().enumerate() {
            let of = chunks.num_columns();
            for (leaf, column) in chunks.columns().iter().enumerate() {
                let name = column.column_path().string();
                let (start, length) = column.byte_range();
                let piece = Piece::Column { group, leaf, of };
                let read = self.compare_piece(file, &path, piece, &[(start, length)]).await;
                found.note(Some(&name), read)?;
            }
        }
        let end = digest::end_of_columns(&metadata);
        let footer = footer::start(self.store(), &path, file.bytes()).await?;
        let rest = [(0, 4), (end, footer.saturating_sub(end))];
        let read = self.compare_piece(file, &path, Piece::Rest, &rest).await;
        found.note(None, read).map(|_| ())
    }

    /// Compares the bytes of ranges, given by start and length, with their digest.
    async fn compare_piece(
        &self,
        file: &Arc<DataFile>,
        path: &str,
        piece: Piece,
        ranges: &[(u64, u64)],
    ) -> Result<()> {
        let ranges = ranges.iter().filter(|(_, length)| *length > 0);
        let ranges: Vec<_> = ranges.map(|(start, length)| *start..start + length).collect();
        let bytes = self.store().get_ranges(path, &ranges).await?;
        let (seen, file) = (self.seen().clone(), Arc::clone(file));
        let check = move || match bytes.as_slice() {
            [bytes] => seen.check(&file, piece, bytes),
            several => seen.check(&file, piece, &several.concat()),
        };
        catching(self.store(), format!("{}/{path}", self.store().url()), check).await
    }

    /// Decodes every column of a file.
    async fn decode(&self, state: &TableState, file: &Arc<DataFile>, found: &mut Verified) -> Result<()> {
        let footer = footer::of_file(self.store(), self.seen(), file).await;
        if !found.note(None, footer.map(|_| ()))? {
            return Ok(());
        }
        for (place, field) in state.schema().fields().iter().enumerate() {
            let read = self.decode_column(state, file, place).await;
            found.note(Some(&field.name), read)?;
        }
        Ok(())
    }

    async fn decode_column(&self, state: &TableState, file: &Arc<DataFile>, place: usize) -> Result<()> {
        let mut first_row = 0;
        while first_row < file.rows() {
            let rows = (file.rows() - first_row).min(FRAGMENT_ROWS as u64);
            let rows = count(index(rows));
            let part = FragmentEntry { id: 0, file: Arc::clone(file), first_row, rows };
            let mut reader = self.read(state, &part, &[place]).await?;
            while reader.next().await?.is_some() {}
            first_row += u64::from(rows);
        }
        Ok(())
    }
}
