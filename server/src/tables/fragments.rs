//! Fragments of a version with the columns that somebody reads: from memory, or from their files.

use std::{sync::Arc, time::Duration};

use basalt_core::{
    fragment::{Column, Deleted, Fragment, FragmentData, Zone},
    limits::FRAGMENT_BLOCKS,
    table::Snapshot,
};
use basalt_storage::{FragmentEntry, TableState};
use futures_util::{FutureExt as _, Stream, StreamExt as _, future::BoxFuture, stream};
use rayon::prelude::*;
use tokio::time::Instant;

use super::{
    load::{self, decoded_bytes, expected_bytes, expected_bytes_of},
    stored::Stored,
};
use crate::{
    cache::{Found, Purpose, Rows, Told, assemble},
    disk, limits,
    memory::{Consumer, Reservation},
    status::{RequestError, Result},
};

/// Where memory for what is read comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// What nobody uses.
    Spare,
    /// That, and what the cache gives up.
    Now,
    /// The same, waited for until then.
    By(Instant),
}

/// What is read of fragments, and for whom.
#[derive(Clone, Copy, Debug)]
struct Reading<'c> {
    columns: &'c [usize],
    purpose: Purpose,
}

impl Room {
    async fn reserve(self, held: &mut Reservation, bytes: u64) -> Result<bool> {
        match self {
            Self::Spare => return Ok(held.try_set(bytes)),
            Self::Now => held.set(bytes)?,
            Self::By(until) => held.set_by(bytes, until).await?,
        }
        Ok(true)
    }
}

impl Stored {
    /// All columns of the table, by their places.
    pub(super) fn all_columns(&self) -> Vec<usize> {
        (0..self.table.schema().fields().len()).collect()
    }

    /// Fragments to read at once.
    fn loads(&self) -> usize {
        let fit = self.shared.memory.limit() / 4 / limits::LOAD_BYTES;
        usize::try_from(fit).unwrap_or(limits::LOADS).clamp(1, limits::LOADS)
    }

    fn rows(&self, entry: &FragmentEntry) -> Rows {
        Rows { table: self.table.id(), hash: entry.source().rows }
    }

    /// Some fragments of a version with some columns, all of them in memory; `None` where something is missing.
    pub(super) fn resident(
        &self,
        state: &TableState,
        ids: &[u32],
        columns: &[usize],
        purpose: Purpose,
    ) -> Result<Option<Snapshot>> {
        let entries = self.entries(state, ids)?;
        let found = self.look_up(state, &entries, columns, purpose)?;
        match found.iter().all(Found::is_whole) {
            true => self.assembled(state, entries.into_iter().zip(found), columns).map(Some),
            false => Ok(None),
        }
    }

    /// Those of some fragments of a version that are in memory with some columns.
    pub(super) fn resident_of(&self, state: &TableState, ids: &[u32], columns: &[usize]) -> Result<Snapshot> {
        let entries = self.entries(state, ids)?;
        let found = self.look_up(state, &entries, columns, Purpose::Aside)?;
        let here = entries.into_iter().zip(found).filter(|(_, found)| found.is_whole());
        self.assembled(state, here, columns)
    }

    fn assembled<'e>(
        &self,
        state: &TableState,
        found: impl Iterator<Item = (&'e FragmentEntry, Found)>,
        columns: &[usize],
    ) -> Result<Snapshot> {
        let fragments = found.map(|(entry, found)| self.assemble(entry, columns, found));
        Ok(snapshot_of(state, fragments.collect::<Result<_>>()?))
    }

    /// Some fragments of a version with some columns, all of them in memory at once.
    pub(super) async fn fragments_at(
        &self,
        state: &TableState,
        ids: &[u32],
        columns: &[usize],
    ) -> Result<Snapshot> {
        let entries = self.entries(state, ids)?;
        let room = Room::By(Instant::now() + limits::QUEUE_TIMEOUT);
        let reading = Reading { columns, purpose: Purpose::Maintenance };
        Ok(snapshot_of(state, self.read_all(state, &entries, reading, room).await?))
    }

    /// The first of some fragments of a version with some columns: as many as memory has room for at once, at least
    /// one, for which it is waited. The number is of those that were read.
    pub(super) async fn wave(
        &self,
        state: &TableState,
        ids: &[u32],
        columns: &[usize],
        purpose: Purpose,
        deadline: Instant,
    ) -> Result<(Snapshot, u32)> {
        let entries = self.entries(state, ids)?;
        let most = self.shared.memory.limit() / limits::WAVE_MEMORY_PART;
        let mut bytes = 0_u64;
        let mut takes = |entry: &&FragmentEntry| {
            bytes = bytes.saturating_add(expected_bytes_of(state, entry, columns.len()));
            bytes <= most
        };
        let n = entries.iter().take_while(|entry| takes(entry)).count().max(1).min(entries.len());
        let found = self.look_up(state, &entries[..n], columns, Purpose::Aside)?;
        let reading = Reading { columns, purpose };
        let loaded = found.iter().filter(|found| !found.is_whole()).count();
        drop(found);
        let until = deadline.min(Instant::now() + limits::QUEUE_TIMEOUT);
        let mut fragments = Vec::with_capacity(n);
        if let Some((first, rest)) = entries[..n].split_first() {
            fragments.push(self.read(state, first, reading, Room::By(until)).await?);
            let mut reads = self.reads(state, rest, reading, Room::Now).buffered(self.loads());
            while let Some(read) = reads.next().await {
                match read {
                    Ok(fragment) => fragments.push(fragment),
                    // The rest waits for the next time, when these are done.
                    Err(error) if error.is_of_memory() => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok((snapshot_of(state, fragments), u32::try_from(loaded).unwrap_or(u32::MAX)))
    }

    /// Reads what this node holds of a version by its place, as long as there is memory that nobody uses.
    pub(super) async fn warm(
        &self,
        state: &TableState,
        entries: &[&FragmentEntry],
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<()> {
        let columns = self.all_columns();
        let reading = Reading { columns: &columns, purpose: Purpose::Maintenance };
        let found = self.look_up(state, entries, &columns, reading.purpose)?;
        let missing: Vec<_> = entries.iter().zip(found).filter(|(_, found)| !found.is_whole()).collect();
        let mut reads: Vec<BoxFuture<'_, Result<Option<u64>>>> = Vec::with_capacity(missing.len());
        for (entry, _) in missing {
            let read = self.read_if(state, entry, reading, Room::Spare);
            let bytes = expected_bytes(entry);
            reads.push(async move { Ok(read.await?.map(|_| bytes)) }.boxed());
        }
        let mut reads = stream::iter(reads).buffer_unordered(self.loads());
        while let Some(read) = reads.next().await {
            match read? {
                Some(bytes) => progress(bytes),
                // The rest is read when it is asked for.
                None => break,
            }
        }
        Ok(())
    }

    /// Parts some fragments into those to read at once, and those whose columns are on disk, from where they can be read
    /// while queries are answered.
    pub(super) async fn put_off<'s>(
        &self,
        state: &TableState,
        entries: Vec<&'s FragmentEntry>,
    ) -> (Vec<&'s FragmentEntry>, Vec<&'s FragmentEntry>) {
        let Some(disk) = &self.shared.disk else { return (entries, Vec::new()) };
        let which = disk.which(entries.iter().map(|entry| disk::Key::new(state, entry)).collect()).await;
        let (late, now): (Vec<_>, Vec<_>) =
            entries.into_iter().zip(which).partition(|(_, is_there)| *is_there);
        let entries = |of: Vec<(&'s FragmentEntry, bool)>| of.into_iter().map(|(entry, _)| entry).collect();
        (entries(now), entries(late))
    }

    /// Reads what [`put_off`](Self::put_off) has left for later, one table at a time.
    pub(super) async fn read_late(&self) {
        let started = Instant::now();
        let _one = self.shared.late.acquire().await;
        let table = self.table.name();
        match self.place().await {
            Ok(()) => tracing::info!(table, elapsed = ?started.elapsed(), "read from the cache on disk"),
            // Whoever asks for it hears of it.
            Err(error) => tracing::warn!(table, error = error.message(), "cannot read what is held here"),
        }
    }

    /// Keeps rows that this node has written, as they are encoded, and which of them are deleted.
    pub(super) fn keep(
        &self,
        state: &TableState,
        entry: &FragmentEntry,
        data: &FragmentData,
        deleted: Option<&Arc<Deleted>>,
    ) {
        let rows = self.rows(entry);
        let held = |bytes: u64| {
            let mut held = self.shared.memory.reserve(Consumer::Cache);
            held.set(bytes).is_ok().then_some(held)
        };
        let mut kept = Vec::with_capacity(data.width());
        for place in 0..data.width() {
            if let (Some(id), Some(column)) = (state.column_id(place), data.loaded(place))
                && let Some(held) = held(column.bytes() as u64)
            {
                self.shared.cache.keep_column(rows, id, Arc::clone(column), Duration::ZERO, held);
                kept.push(id);
            }
        }
        self.keep_on_disk(state, entry, kept);
        let deletions = entry.source().deletions;
        if let Some(deleted) = deleted.filter(|_| deletions != 0)
            && let Some(held) = held(deleted.bytes() as u64)
        {
            self.shared.cache.keep_deleted(rows, deletions, Some(Arc::clone(deleted)), held);
        }
    }

    fn entries<'s>(&self, state: &'s TableState, ids: &[u32]) -> Result<Vec<&'s FragmentEntry>> {
        let entry = |id: &u32| {
            state.fragment(*id).ok_or_else(|| {
                let (version, table) = (state.version(), self.table.name());
                RequestError::protocol(format!("version {version} of table {table:?} has no fragment {id}"))
            })
        };
        ids.iter().map(entry).collect()
    }

    /// What reads each of some fragments when its turn comes.
    fn reads<'s>(
        &'s self,
        state: &'s TableState,
        entries: &[&'s FragmentEntry],
        reading: Reading<'s>,
        room: Room,
    ) -> impl Stream<Item = BoxFuture<'s, Result<Fragment>>> + Send + 's {
        let mut reads = Vec::with_capacity(entries.len());
        for entry in entries {
            reads.push(self.read(state, entry, reading, room).boxed());
        }
        stream::iter(reads)
    }

    async fn read_all(
        &self,
        state: &TableState,
        entries: &[&FragmentEntry],
        reading: Reading<'_>,
        room: Room,
    ) -> Result<Vec<Fragment>> {
        let mut reads = self.reads(state, entries, reading, room).buffered(self.loads());
        let mut fragments = Vec::with_capacity(entries.len());
        while let Some(read) = reads.next().await {
            fragments.push(read?);
        }
        Ok(fragments)
    }

    /// A fragment with some columns.
    async fn read(
        &self,
        state: &TableState,
        entry: &FragmentEntry,
        reading: Reading<'_>,
        room: Room,
    ) -> Result<Fragment> {
        self.read_if(state, entry, reading, room).await?.ok_or_else(RequestError::internal)
    }

    /// The same; `None` where there is no room, and nothing makes any.
    async fn read_if(
        &self,
        state: &TableState,
        entry: &FragmentEntry,
        reading: Reading<'_>,
        room: Room,
    ) -> Result<Option<Fragment>> {
        let Reading { columns, purpose } = reading;
        let find = || Ok::<_, RequestError>(self.look_up(state, &[entry], columns, purpose)?.remove(0));
        let found = find()?;
        if found.is_whole() {
            return self.assemble(entry, columns, found).map(Some);
        }
        drop(found);
        let rows = self.rows(entry);
        let load = self.shared.cache.load(rows);
        let _one = load.acquire().await;
        // Whoever read it before has read what is wanted here, perhaps.
        let mut found = find()?;
        if found.deleted.is_none() {
            let places = self.log.deleted_rows(entry).await?;
            let deleted = places.and_then(|places| Deleted::new(&places, entry.rows as usize)).map(Arc::new);
            let mut held = self.shared.memory.reserve(Consumer::Cache);
            let bytes = deleted.as_ref().map_or(0, |deleted| deleted.bytes() as u64);
            if !room.reserve(&mut held, bytes).await? {
                return Ok(None);
            }
            self.shared.cache.keep_deleted(rows, entry.source().deletions, deleted.clone(), held);
            found.deleted = Some(deleted);
        }
        let missing = |found: &Found| -> Vec<usize> {
            (0..columns.len()).filter(|at| found.columns[*at].is_none()).collect()
        };
        if !self.read_from_disk(state, entry, columns, &missing(&found), &mut found, room).await? {
            return Ok(None);
        }
        let missing = missing(&found);
        for group in self.groups(state, entry, columns, &missing) {
            let places: Vec<usize> = group.iter().map(|at| columns[*at]).collect();
            let Some(read) = self.read_columns(state, entry, &places, room).await? else { return Ok(None) };
            for (at, column) in group.iter().zip(read) {
                found.columns[*at] = Some(column);
            }
        }
        let read = missing.iter().filter_map(|at| state.column_id(columns[*at]));
        self.keep_on_disk(state, entry, read.collect());
        self.assemble(entry, columns, found).map(Some)
    }

    /// Columns to read at once: as many as take little memory while they are decoded, and at least one.
    fn groups<'m>(
        &self,
        state: &TableState,
        entry: &FragmentEntry,
        columns: &[usize],
        missing: &'m [usize],
    ) -> Vec<&'m [usize]> {
        let most = self.shared.memory.limit() / limits::DECODE_MEMORY_PART;
        let (mut groups, mut rest) = (Vec::new(), missing);
        while !rest.is_empty() {
            let mut bytes = 0_u64;
            let mut fits = |at: &&usize| {
                bytes = bytes.saturating_add(decoded_bytes(state, entry, &columns[**at..=**at]));
                bytes <= most
            };
            let n = rest.iter().take_while(|at| fits(at)).count().max(1);
            let group;
            (group, rest) = rest.split_at(n);
            groups.push(group);
        }
        groups
    }

    /// Reads those of some columns of a fragment that are on disk, and keeps them in memory; whether there was room.
    async fn read_from_disk(
        &self,
        state: &TableState,
        entry: &FragmentEntry,
        columns: &[usize],
        missing: &[usize],
        found: &mut Found,
        room: Room,
    ) -> Result<bool> {
        let Some(disk) = self.shared.disk.as_ref().filter(|_| !missing.is_empty()) else { return Ok(true) };
        let started = Instant::now();
        let ids = missing.iter().map(|at| state.column_id(columns[*at]));
        let ids = ids.collect::<Option<Vec<u64>>>().ok_or_else(RequestError::internal)?;
        let Some(there) = disk.find(disk::Key::new(state, entry), ids).await else { return Ok(true) };
        let mut held = self.shared.memory.reserve(Consumer::Maintenance);
        // Zones are found again from the values.
        let zones = missing.len() * size_of::<Zone>() * FRAGMENT_BLOCKS;
        if !room.reserve(&mut held, there.bytes() + zones as u64).await? {
            return Ok(false);
        }
        let fields = state.schema().fields();
        let read = disk.read(there).await.into_iter();
        let read: Vec<_> = read.map(|read| (fields[columns[missing[read.place]]].data_type, read)).collect();
        let rows = entry.rows as usize;
        let open = move || {
            let open = |(data_type, read): (_, disk::Read)| {
                (read.place, read.name, Column::from_parts(read.parts, data_type, rows))
            };
            read.into_par_iter().map(open).collect::<Vec<_>>()
        };
        let mut opened = Vec::with_capacity(missing.len());
        for (place, name, column) in self.shared.cpu.run(open).await? {
            match column {
                Ok(column) => opened.push((missing[place], Arc::new(column))),
                Err(error) => disk.is_damaged(name, error.message()),
            }
        }
        let took = started.elapsed();
        let places = opened.iter().map(|(at, column)| (columns[*at], Arc::clone(column)));
        self.keep_read(state, entry, places.collect(), took, held, room).await?;
        for (at, column) in opened {
            found.columns[at] = Some(column);
        }
        Ok(true)
    }

    /// Has columns that are in memory written to disk.
    fn keep_on_disk(&self, state: &TableState, entry: &FragmentEntry, columns: Vec<u64>) {
        if let Some(disk) = self.shared.disk.as_ref().filter(|_| !columns.is_empty()) {
            disk.keep(disk::Key::new(state, entry), self.rows(entry), columns);
        }
    }

    /// Reads some columns of a fragment from its file, and keeps them; `None` where there is no room.
    async fn read_columns(
        &self,
        state: &TableState,
        entry: &FragmentEntry,
        places: &[usize],
        room: Room,
    ) -> Result<Option<Vec<Arc<Column>>>> {
        let started = Instant::now();
        let mut held = self.shared.memory.reserve(Consumer::Maintenance);
        let encoded = expected_bytes_of(state, entry, places.len());
        let load = load::Load::open(&self.log, state, entry, places).await?;
        let takes = load.bytes().unwrap_or_else(|| decoded_bytes(state, entry, places));
        let (takes, most) =
            (encoded.saturating_add(takes), self.shared.memory.limit() / limits::LARGEST_LOAD_PART);
        let _alone = if takes > most { Some(self.shared.large.acquire().await) } else { None };
        if !room.reserve(&mut held, takes.min(most)).await? {
            return Ok(None);
        }
        let data = load.read(&self.shared.cpu).await?;
        self.shared.metrics.fragment_loaded(data.bytes() as u64);
        let mut columns = Vec::with_capacity(places.len());
        for (at, place) in places.iter().enumerate() {
            columns.push((*place, Arc::clone(data.loaded(at).ok_or_else(RequestError::internal)?)));
        }
        let read = columns.iter().map(|(_, column)| Arc::clone(column)).collect();
        drop(data);
        self.keep_read(state, entry, columns, started.elapsed(), held, room).await?;
        Ok(Some(read))
    }

    /// Keeps columns that took so long to read, and for which memory was reserved together.
    async fn keep_read(
        &self,
        state: &TableState,
        entry: &FragmentEntry,
        columns: Vec<(usize, Arc<Column>)>,
        took: Duration,
        mut held: Reservation,
        room: Room,
    ) -> Result<()> {
        let took = took / u32::try_from(columns.len().max(1)).unwrap_or(u32::MAX);
        let mut left: u64 = columns.iter().map(|(_, column)| column.bytes() as u64).sum();
        held.set(left)?;
        for (place, column) in columns {
            let id = state.column_id(place).ok_or_else(RequestError::internal)?;
            let bytes = column.bytes() as u64;
            // From one account to the other: nothing grows.
            left = left.saturating_sub(bytes);
            held.set(left)?;
            let mut kept = self.shared.memory.reserve(Consumer::Cache);
            if room.reserve(&mut kept, bytes).await? {
                self.shared.cache.keep_column(self.rows(entry), id, column, took, kept);
            }
        }
        Ok(())
    }

    fn look_up(
        &self,
        state: &TableState,
        entries: &[&FragmentEntry],
        columns: &[usize],
        purpose: Purpose,
    ) -> Result<Vec<Found>> {
        let ids = columns.iter().map(|place| state.column_id(*place));
        let ids = ids.collect::<Option<Vec<u64>>>().ok_or_else(RequestError::internal)?;
        let rows = entries.iter().map(|entry| (self.rows(entry), entry.source().deletions));
        Ok(self.shared.cache.find(rows, &ids, purpose))
    }

    /// What is told of the columns of some fragments.
    pub(super) fn told(&self, state: &TableState, ids: &[u32]) -> Result<Vec<Vec<Told>>> {
        let columns = self.all_columns().into_iter().map(|place| state.column_id(place));
        let columns = columns.collect::<Option<Vec<u64>>>().ok_or_else(RequestError::internal)?;
        let told = |entry| self.shared.cache.told(self.rows(entry), &columns);
        Ok(self.entries(state, ids)?.into_iter().map(told).collect())
    }

    fn assemble(&self, entry: &FragmentEntry, columns: &[usize], found: Found) -> Result<Fragment> {
        let width = self.table.schema().fields().len();
        let data = assemble(entry.rows as usize, width, columns, found.columns)?;
        let deleted = found.deleted.ok_or_else(RequestError::internal)?;
        Ok(Fragment::new(entry.id, data).with_deleted(deleted).with_source(entry.source()))
    }

    /// What is in memory of a version: its fragments that are there with all columns, their rows, and all bytes.
    pub(super) fn held(&self, state: &TableState) -> Held {
        let entries = state.fragments();
        let sizes = self.shared.cache.sizes(entries.iter().map(|entry| self.rows(entry)));
        let width = self.table.schema().fields().len();
        let mut held = Held::default();
        for (entry, (columns, bytes)) in entries.iter().zip(sizes) {
            held.bytes += bytes;
            if columns >= width {
                held.fragments += 1;
                held.rows += entry.live_rows();
            }
        }
        held
    }

    /// Lets go of what no version has any longer that is read.
    pub(super) fn forget_rows(&self, gone: impl IntoIterator<Item = u64>) {
        let state = self.state();
        for hash in gone {
            self.shared.cache.forget(Rows { table: self.table.id(), hash });
            if let Some(disk) = &self.shared.disk {
                disk.forget(&state, hash);
            }
        }
    }

    /// Lets what other nodes hold by its place go first when memory is needed.
    pub(super) fn cool<'e>(&self, entries: impl IntoIterator<Item = &'e FragmentEntry>) {
        entries.into_iter().for_each(|entry| self.shared.cache.cool(self.rows(entry)));
    }
}

/// Some fragments of a version.
pub(super) fn snapshot_of(state: &TableState, fragments: Vec<Fragment>) -> Snapshot {
    Snapshot::new(state.version(), fragments).with_retention(state.retention().cloned())
}

/// What is in memory of a version.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    pub(crate) fragments: u64,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}
