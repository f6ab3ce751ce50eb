//! Row groups of a file whose pages are checked on their way to the decoder.

use std::{ops::Range, sync::Arc};

use arrow_schema::Fields;
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{ParquetRecordBatchReader, RowGroups, RowSelection, RowSelector},
        parquet_to_arrow_field_levels,
    },
    column::page::{Page, PageIterator, PageMetadata, PageReader},
    errors::Result,
    file::{
        metadata::{ParquetMetaData, RowGroupMetaData},
        reader::ChunkReader,
        serialized_reader::SerializedPageReader,
    },
};

use super::{
    int96::{is_int96, plain_in_micros},
    limits::LIST_VALUE_BYTES,
    pages::{self, Chunk, wrong},
    wanted::{Asked, Wanted},
};

/// Some row groups of a file whose footer was checked.
#[derive(Debug)]
pub struct Groups<R> {
    reader: Arc<R>,
    metadata: Arc<ParquetMetaData>,
    groups: Vec<usize>,
    page_bytes: usize,
    wanted: Wanted,
}

impl<R: ChunkReader + 'static> Groups<R> {
    /// These groups; a page of more than `page_bytes` when it is decompressed is an error.
    pub fn new(reader: R, metadata: Arc<ParquetMetaData>, groups: Vec<usize>, page_bytes: usize) -> Self {
        Self { reader: Arc::new(reader), metadata, groups, page_bytes, wanted: Wanted::always() }
    }

    /// The same of a file that is read by others too, for as long as it is wanted.
    pub(super) fn shared(
        reader: Arc<R>,
        metadata: Arc<ParquetMetaData>,
        groups: Vec<usize>,
        page_bytes: usize,
        wanted: Wanted,
    ) -> Self {
        Self { reader, metadata, groups, page_bytes, wanted }
    }

    /// Bytes of pages that are decompressed at once, at most, when all columns are read.
    ///
    /// # Errors
    /// What is wrong with the headers of pages.
    pub fn bytes(&self) -> Result<u64> {
        self.most(|_, found| found.bytes as u64)
    }

    /// The same, with what the values of lists take when they are decoded: the rows of a batch may have all that a group has.
    pub(super) fn room(&self) -> Result<u64> {
        let schema = self.metadata.file_metadata().schema_descr();
        self.most(|column, found| {
            let repeats = schema.column(column).max_rep_level() > 0;
            let values = if repeats { found.values.saturating_mul(LIST_VALUE_BYTES) } else { 0 };
            (found.bytes as u64).saturating_add(values)
        })
    }

    /// The most that the columns of a group come to together.
    fn most(&self, of: impl Fn(usize, pages::Found) -> u64) -> Result<u64> {
        let (mut most, mut asked) = (0, Asked::of(&self.wanted));
        for group in &self.groups {
            let mut bytes = 0_u64;
            for column in 0..self.metadata.row_group(*group).num_columns() {
                bytes = bytes.saturating_add(of(column, self.checked(*group, column, &mut asked)?));
            }
            most = most.max(bytes);
        }
        Ok(most)
    }

    fn checked(&self, group: usize, column: usize, asked: &mut Asked) -> Result<pages::Found> {
        let column = self.metadata.row_group(group).column(column);
        let (start, length) = column.byte_range();
        let chunk = Chunk { start, length, compression: column.compression() };
        pages::check_headers(&*self.reader, chunk, self.page_bytes, asked)
    }

    /// The rows of the groups, or some of them, in batches of so many: the columns of `projection`, as `types` has them
    /// where it says so. Without it times of 96 bits are microseconds.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn read(
        &self,
        projection: ProjectionMask,
        types: Option<&Fields>,
        rows: Option<Range<usize>>,
        batch_rows: usize,
    ) -> Result<ParquetRecordBatchReader> {
        let schema = self.metadata.file_metadata().schema_descr();
        // Nanoseconds of 64 bits would be other times than those before 1677 and after 2262.
        let micros = if types.is_none() { plain_in_micros(schema)? } else { None };
        let levels = parquet_to_arrow_field_levels(
            schema,
            projection,
            types.or(micros.as_ref().map(|schema| &schema.fields)),
        )?;
        let selection = rows.map(|rows| {
            RowSelection::from(vec![RowSelector::skip(rows.start), RowSelector::select(rows.len())])
        });
        ParquetRecordBatchReader::try_new_with_row_groups(&levels, self, batch_rows, selection)
    }
}

impl<R: ChunkReader + 'static> RowGroups for Groups<R> {
    fn num_rows(&self) -> usize {
        let rows = self.row_groups().map(|group| usize::try_from(group.num_rows()).unwrap_or(0));
        rows.fold(0, usize::saturating_add)
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        let schema = self.metadata.file_metadata().schema_descr().column(column);
        let levels = (schema.max_def_level(), schema.max_rep_level());
        let is_int96 = is_int96(&schema);
        let groups = Self {
            reader: Arc::clone(&self.reader),
            metadata: Arc::clone(&self.metadata),
            groups: self.groups.clone(),
            page_bytes: self.page_bytes,
            wanted: self.wanted.clone(),
        };
        let asked = Asked::of(&self.wanted);
        Ok(Box::new(Chunks { groups, next: 0, column, levels, is_int96, asked }))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.groups.iter().map(|group| self.metadata.row_group(*group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// A column of each group.
struct Chunks<R> {
    groups: Groups<R>,
    next: usize,
    column: usize,
    levels: (i16, i16),
    is_int96: bool,
    asked: Asked,
}

impl<R: ChunkReader + 'static> Chunks<R> {
    fn pages(&mut self, group: usize) -> Result<Box<dyn PageReader>> {
        self.groups.checked(group, self.column, &mut self.asked)?;
        let group = self.groups.metadata.row_group(group);
        let rows =
            usize::try_from(group.num_rows()).map_err(|_| wrong("a row group of less than no rows"))?;
        let reader = Arc::clone(&self.groups.reader);
        let pages = SerializedPageReader::new(reader, group.column(self.column), rows, None)?;
        let asked = Asked::of(&self.groups.wanted);
        Ok(Box::new(Checked { pages, levels: self.levels, is_int96: self.is_int96, asked }))
    }
}

impl<R: ChunkReader + 'static> Iterator for Chunks<R> {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        let group = *self.groups.groups.get(self.next)?;
        self.next += 1;
        Some(self.pages(group))
    }
}

impl<R: ChunkReader + 'static> PageIterator for Chunks<R> {}

/// The pages of a column of a group.
struct Checked<R: ChunkReader> {
    pages: SerializedPageReader<R>,
    levels: (i16, i16),
    is_int96: bool,
    asked: Asked,
}

impl<R: ChunkReader> Iterator for Checked<R> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl<R: ChunkReader> PageReader for Checked<R> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.asked.page()?;
        let page = self.pages.get_next_page()?;
        if let Some(page) = &page {
            pages::check(page, self.levels, self.is_int96)?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.asked.page()?;
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}
