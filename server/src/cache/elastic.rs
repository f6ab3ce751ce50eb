//! Faster forms of columns in the cache, beside the columns: how hot a column is, which has one, and which loses it first.
//!
//! A faster form is never needed. It is counted by itself, and is gone at once when somebody wants the memory: the column
//! that it was made from is there, and answers the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
};

use basalt_core::fragment::Column;

use super::{FragmentCache, Id, Item, Items, Purpose, Resident, Rows};
use crate::{limits, memory::Reservation};

/// How often queries have read a column lately.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heat {
    uses: f32,
    /// The half-life in which that was so.
    age: u32,
}

impl Heat {
    fn at(self, age: u32) -> f32 {
        let halved = i32::try_from(age.saturating_sub(self.age)).unwrap_or(i32::MAX);
        self.uses * 0.5_f32.powi(halved)
    }

    fn add(&mut self, uses: f32, age: u32) {
        *self = Self { uses: self.at(age) + uses, age };
    }
}

/// What there is beside a column.
#[derive(Debug, Default)]
enum Form {
    /// Nobody has looked.
    #[default]
    Unknown,
    /// It is as fast as it gets.
    Fastest,
    /// It would take so many bytes.
    Away(u64),
    Held(Arc<Column>, Reservation),
}

/// What is known of a column beside what it holds.
#[derive(Debug, Default)]
pub(super) struct Elastic {
    heat: Heat,
    form: Form,
    /// It is among those that are hot.
    is_hot: bool,
}

impl Elastic {
    /// What is read of a column for a purpose.
    pub(super) fn read(&self, column: &Arc<Column>, purpose: Purpose) -> Arc<Column> {
        match &self.form {
            Form::Held(faster, _) if purpose != Purpose::Maintenance => Arc::clone(faster),
            _ => Arc::clone(column),
        }
    }

    /// A query reads it; whether it is hot, and was not.
    pub(super) fn used(&mut self, age: u32) -> bool {
        self.heat.add(1.0, age);
        let lacks = matches!(self.form, Form::Unknown | Form::Away(_));
        let is_new = lacks && !self.is_hot && self.heat.uses >= limits::ELASTIC_HEAT;
        self.is_hot |= is_new;
        is_new
    }

    /// A query that was to read it does not.
    pub(super) fn unread(&mut self, age: u32) {
        self.heat.add(-1.0, age);
    }

    /// Whether somebody reads the faster form.
    pub(super) fn is_read(&self) -> bool {
        matches!(&self.form, Form::Held(faster, _) if Arc::strong_count(faster) > 1)
    }

    /// Takes the faster form away.
    fn take(&mut self) -> Option<(Arc<Column>, Reservation)> {
        match std::mem::take(&mut self.form) {
            Form::Held(faster, held) => {
                self.form = Form::Away(held.bytes());
                Some((faster, held))
            }
            other => {
                self.form = other;
                None
            }
        }
    }
}

/// A column that a faster form may be made of.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) rows: Rows,
    pub(crate) id: u64,
    /// It leaves the cache as if nobody knew it here.
    pub(crate) column: Weak<Column>,
    pub(crate) heat: f32,
    /// What it takes, where that is known.
    pub(crate) bytes: Option<u64>,
}

/// Of one column of some rows, what is told of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Told {
    pub(crate) heat: f64,
    /// The faster form's encoding, its rows, and its bytes.
    pub(crate) faster: Option<(String, u64, u64)>,
}

/// What all faster forms are, and what became of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) columns: u64,
    pub(crate) bytes: u64,
    pub(crate) made: u64,
    pub(crate) evicted: u64,
}

/// Columns that may have faster forms, by their tables.
pub(crate) type Allowed = BTreeMap<u64, Vec<u64>>;

impl FragmentCache {
    /// Half of all heat is gone.
    pub(crate) fn age(&self) {
        let mut items = self.items();
        items.age = items.age.saturating_add(1);
    }

    /// How often somebody wanted memory that was not free.
    pub(crate) fn pressed(&self) -> u64 {
        self.items().pressed
    }

    /// The tables that have columns which are hot, or faster.
    pub(crate) fn hot_tables(&self) -> BTreeSet<u64> {
        let items = self.items();
        items.hot.iter().chain(&items.faster).map(|(rows, _)| rows.table).collect()
    }

    /// The columns that were read most and have no faster form, the hottest first. Those that may have none lose theirs.
    pub(crate) fn hottest(&self, allowed: &Allowed) -> Vec<Candidate> {
        let may = |(rows, id): &(Rows, u64)| allowed.get(&rows.table).is_some_and(|ids| ids.contains(id));
        let mut items = self.items();
        let not_any_longer: Vec<_> = items.faster.iter().filter(|place| !may(place)).copied().collect();
        let gone = items.let_go(not_any_longer.into_iter().map(|place| (place, 1)).collect(), u64::MAX);
        let (mut found, age) = (Vec::new(), items.age);
        let mut hot = std::mem::take(&mut items.hot);
        hot.retain(|place| {
            let Some(Resident { item: Item::Column(column), elastic, .. }) = items.column(place.0, place.1)
            else {
                return false;
            };
            let (heat, (rows, id)) = (elastic.heat.at(age), *place);
            let bytes = match elastic.form {
                Form::Away(bytes) => Some(bytes),
                _ => None,
            };
            elastic.is_hot = matches!(elastic.form, Form::Unknown | Form::Away(_))
                && heat >= limits::ELASTIC_HEAT
                && column.rows() as u64 >= limits::ELASTIC_LEAST_ROWS;
            if elastic.is_hot && may(place) {
                found.push(Candidate { rows, id, column: Arc::downgrade(column), heat, bytes });
            }
            elastic.is_hot
        });
        items.hot = hot;
        drop(items);
        drop(gone);
        found.sort_by(|a, b| b.heat.total_cmp(&a.heat).then((a.rows, a.id).cmp(&(b.rows, b.id))));
        found.truncate(limits::ELASTIC_COLUMNS);
        found
    }

    /// Keeps what was made of a column, if that is still the one; `None`: it has no faster form.
    pub(crate) fn keep_faster(&self, of: &Candidate, faster: Option<(Arc<Column>, Reservation)>) {
        let mut items = self.items();
        let Some(resident) = items.column(of.rows, of.id) else { return };
        if !matches!(&resident.item, Item::Column(column) if std::ptr::eq(Arc::as_ptr(column), of.column.as_ptr()))
        {
            return;
        }
        let is_held = faster.is_some();
        resident.elastic.form = match faster {
            Some((faster, held)) => Form::Held(faster, held),
            None => Form::Fastest,
        };
        if is_held {
            items.made += 1;
            items.faster.insert((of.rows, of.id));
        }
    }

    /// Says how large the faster form of a column is, which there is no room for.
    pub(crate) fn size_faster(&self, of: &Candidate, bytes: u64) {
        if let Some(resident) = self.items().column(of.rows, of.id)
            && !matches!(resident.elastic.form, Form::Held(..))
        {
            resident.elastic.form = Form::Away(bytes);
        }
    }

    /// Gives back so many bytes of faster forms of columns that are colder, the coldest first, and no more than they take;
    /// nothing where these have not so many. Whether they had.
    pub(crate) fn make_way(&self, bytes: u64, colder_than: f32) -> bool {
        let mut items = self.items();
        let coldest = items.coldest(Some(colder_than));
        if coldest.iter().map(|(_, bytes)| bytes).sum::<u64>() < bytes {
            return false;
        }
        let gone = items.let_go(coldest, bytes);
        items.evicted += gone.len() as u64;
        drop(items);
        drop(gone);
        true
    }

    /// Gives back so many bytes of faster forms, the coldest first, and somewhat more, so that whoever wants a little again
    /// and again finds it; how many it were.
    pub(super) fn give_back(&self, bytes: u64) -> u64 {
        let mut items = self.items();
        items.pressed += 1;
        if items.faster.is_empty() {
            return 0;
        }
        let coldest = items.coldest(None);
        let all: u64 = coldest.iter().map(|(_, bytes)| bytes).sum();
        let gone = items.let_go(coldest, bytes.max(all / limits::ELASTIC_GIVEN_BACK_PART));
        items.evicted += gone.len() as u64;
        drop(items);
        // Where nothing is locked: this tells the pool.
        gone.iter().map(|(_, held)| held.bytes()).sum()
    }

    /// Of some columns of some rows.
    pub(crate) fn told(&self, rows: Rows, columns: &[u64]) -> Vec<Told> {
        let mut items = self.items();
        let age = items.age;
        let told = |id: &u64| {
            // Default: what is not in memory is cold.
            let Some(resident) = items.column(rows, *id) else { return Told::default() };
            let faster = match &resident.elastic.form {
                Form::Held(faster, held) => Some((faster.encoding(), faster.rows() as u64, held.bytes())),
                _ => None,
            };
            Told { heat: resident.elastic.heat.at(age).into(), faster }
        };
        columns.iter().map(told).collect()
    }

    /// Of all columns.
    pub(crate) fn counts(&self) -> Counts {
        let mut items = self.items();
        let mut counts = Counts { made: items.made, evicted: items.evicted, ..Counts::default() };
        for bytes in items.held().into_iter().map(|(_, _, bytes, _)| bytes) {
            counts.columns += 1;
            counts.bytes += bytes;
        }
        counts
    }
}

impl Items {
    fn column(&mut self, rows: Rows, id: u64) -> Option<&mut Resident> {
        self.of.get_mut(&rows)?.iter_mut().find(|resident| resident.id == Id::Column(id))
    }

    /// The columns with faster forms, their heat, what these take, and whether they are read.
    fn held(&mut self) -> Vec<((Rows, u64), f32, u64, bool)> {
        let (mut held, age) = (Vec::with_capacity(self.faster.len()), self.age);
        let mut faster = std::mem::take(&mut self.faster);
        faster.retain(|place| match self.column(place.0, place.1).map(|resident| &resident.elastic) {
            Some(elastic @ Elastic { heat, form: Form::Held(_, bytes), .. }) => {
                held.push((*place, heat.at(age), bytes.bytes(), elastic.is_read()));
                true
            }
            // The column has left the cache.
            _ => false,
        });
        self.faster = faster;
        held
    }

    /// Those that nobody reads, and what their faster forms take, the coldest first.
    fn coldest(&mut self, colder_than: Option<f32>) -> Vec<((Rows, u64), u64)> {
        let mut held = self.held();
        held.retain(|(_, heat, _, is_read)| !is_read && colder_than.is_none_or(|limit| *heat < limit));
        held.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        held.into_iter().map(|(place, _, bytes, _)| (place, bytes)).collect()
    }

    /// Takes faster forms away until that is so many bytes.
    fn let_go(&mut self, of: Vec<((Rows, u64), u64)>, bytes: u64) -> Vec<(Arc<Column>, Reservation)> {
        let (mut gone, mut freed) = (Vec::new(), 0);
        for (place, takes) in of {
            if freed >= bytes {
                break;
            }
            freed += takes;
            gone.extend(self.column(place.0, place.1).and_then(|resident| resident.elastic.take()));
            self.faster.remove(&place);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use basalt_core::schema::{DataType, Field};

    use super::*;
    use crate::memory::{Consumer, Evict, MemoryPool};

    const ID: u64 = 7;
    const ROWS: i64 = limits::ELASTIC_LEAST_ROWS.cast_signed();

    struct Tested {
        pool: Arc<MemoryPool>,
        cache: Arc<FragmentCache>,
    }

    fn rows(hash: u64) -> Rows {
        Rows { table: 1, hash }
    }

    fn column(encoding: &str, rows: i64) -> Arc<Column> {
        let field = Field { encoding: Some(encoding.into()), ..Field::new("a", DataType::Int64, false) };
        let keys: Vec<i64> = (0..rows).map(|row| row * row % 5).collect();
        Arc::new(Column::from_keys(&field, &keys, None).unwrap())
    }

    impl Tested {
        /// Columns that count as 50 bytes each.
        fn new(limit: u64, columns: u64, rows_of_each: i64) -> Self {
            let (pool, cache) = (Arc::new(MemoryPool::new(limit)), Arc::<FragmentCache>::default());
            pool.set_cache(Arc::downgrade(&cache) as Weak<dyn Evict>);
            let tested = Self { pool, cache };
            for hash in 0..columns {
                let held = tested.held(Consumer::Cache, 50);
                let column = column("packed", rows_of_each);
                tested.cache.keep_column(rows(hash), ID, column, Duration::ZERO, held);
            }
            tested
        }

        fn held(&self, consumer: Consumer, bytes: u64) -> Reservation {
            let mut held = self.pool.reserve(consumer);
            held.set(bytes).unwrap();
            held
        }

        fn read(&self, hash: u64, purpose: Purpose, times: usize) -> Arc<Column> {
            let read = || self.cache.find([(rows(hash), 0)], &[ID], purpose).remove(0).columns.remove(0);
            (1..times).for_each(|_| drop(read().unwrap()));
            read().unwrap()
        }

        fn hottest(&self) -> Vec<Candidate> {
            self.cache.hottest(&Allowed::from([(1, vec![ID])]))
        }

        /// Faster forms that count as 30 bytes each, of all that is hot.
        fn promote(&self) {
            for candidate in self.hottest() {
                let faster = (column("plain", ROWS), self.held(Consumer::Elastic, 30));
                self.cache.keep_faster(&candidate, Some(faster));
            }
        }

        fn faster(&self, columns: u64) -> Vec<u64> {
            let is_faster = |hash: &u64| self.cache.told(rows(*hash), &[ID])[0].faster.is_some();
            (0..columns).filter(is_faster).collect()
        }

        fn columns(&self, columns: u64) -> u64 {
            self.cache.sizes((0..columns).map(rows)).iter().map(|(n, _)| *n as u64).sum()
        }
    }

    #[test]
    fn what_queries_read_often_is_hot_and_cools_down() {
        let tested = Tested::new(1000, 3, ROWS);
        let hot = || tested.hottest().iter().map(|of| (of.rows.hash, of.heat, of.bytes)).collect::<Vec<_>>();
        tested.read(0, Purpose::Query, 3);
        tested.read(1, Purpose::Query, 6);
        tested.read(2, Purpose::Aside, 9);
        tested.read(2, Purpose::Maintenance, 9);
        assert_eq!(hot(), [(1, 6.0, None)]);
        tested.read(0, Purpose::Query, 5);
        assert_eq!(hot(), [(0, 8.0, None), (1, 6.0, None)]);
        assert_eq!(tested.cache.hot_tables(), [1].into());
        tested.cache.age();
        assert_eq!(hot(), [(0, 4.0, None)]);
        tested.cache.age();
        assert_eq!((hot(), tested.cache.hot_tables().len()), (Vec::new(), 0));
        tested.read(0, Purpose::Query, 2);
        assert_eq!(hot(), [(0, 4.0, None)]);
        assert_eq!(tested.cache.told(rows(0), &[ID, 8])[0].heat, 4.0);
        // Smaller ones are left as they are.
        let small = Tested::new(1000, 1, ROWS - 1);
        small.read(0, Purpose::Query, 9);
        assert!(small.hottest().is_empty());
    }

    #[test]
    fn a_query_that_finds_not_all_has_read_nothing() {
        let tested = Tested::new(1000, 2, ROWS);
        for _ in 0..9 {
            tested.cache.find([(rows(0), 0), (rows(5), 0)], &[ID], Purpose::Query);
            tested.cache.find([(rows(1), 0)], &[ID, 8], Purpose::Query);
        }
        assert_eq!((tested.hottest().len(), tested.cache.told(rows(0), &[ID])[0].heat), (0, 0.0));
    }

    #[test]
    fn queries_get_the_faster_form_and_others_the_column() {
        let tested = Tested::new(1000, 2, ROWS);
        tested.read(0, Purpose::Query, 4);
        tested.promote();
        for (purpose, encoding) in
            [(Purpose::Query, "plain"), (Purpose::Aside, "plain"), (Purpose::Maintenance, "packed")]
        {
            assert_eq!(tested.read(0, purpose, 1).encoding(), encoding);
        }
        assert_eq!(tested.read(1, Purpose::Query, 9).encoding(), "packed");
        let faster = Some(("plain".to_owned(), ROWS.cast_unsigned(), 30));
        assert_eq!(tested.cache.told(rows(0), &[ID]), [Told { heat: 5.0, faster }]);
        let counts = Counts { columns: 1, bytes: 30, made: 1, evicted: 0 };
        assert_eq!((tested.cache.counts(), tested.pool.used(Consumer::Elastic)), (counts, 30));
        // What the column takes is what it took.
        assert_eq!(tested.cache.sizes([rows(0)]), [(1, 50)]);
        assert_eq!(tested.pool.used(Consumer::Cache), 100);
    }

    #[test]
    fn faster_forms_go_before_columns_and_the_coldest_first() {
        let tested = Tested::new(1000, 10, ROWS);
        for hash in 0..10 {
            tested.read(hash, Purpose::Query, 20 - usize::try_from(hash).unwrap());
        }
        tested.promote();
        assert_eq!((tested.pool.held(), tested.faster(10).len()), (800, 10));
        let mut other = tested.held(Consumer::Writes, 200);
        other.set(201).unwrap();
        assert_eq!(tested.faster(10), (0..9).collect::<Vec<_>>());
        other.set(400).unwrap();
        assert_eq!((tested.faster(10), tested.columns(10)), ((0..3).collect(), 10));
        other.set(500).unwrap();
        assert_eq!((tested.faster(10).len(), tested.columns(10), tested.pool.held()), (0, 10, 1000));
        let counts = Counts { made: 10, evicted: 10, ..Counts::default() };
        assert_eq!(tested.cache.counts(), counts);
        // All have their turns, and then go as well.
        other.set(550).unwrap();
        assert_eq!(tested.columns(10), 9);
        // What it would take is known from then on.
        let known: Vec<_> = tested.hottest().iter().map(|candidate| candidate.bytes).collect();
        assert!(known.len() >= 9 && known.iter().all(|bytes| *bytes == Some(30)), "{known:?}");
    }

    #[test]
    fn what_takes_only_what_nobody_needs_takes_faster_forms_and_no_columns() {
        let tested = Tested::new(200, 2, ROWS);
        tested.read(0, Purpose::Query, 4);
        tested.promote();
        assert_eq!(tested.pool.held(), 130);
        let mut other = tested.pool.reserve(Consumer::Cache);
        assert!(other.try_set(100));
        assert_eq!((tested.faster(2).len(), tested.columns(2), tested.pool.held()), (0, 2, 200));
        assert!(!other.try_set(101) && tested.columns(2) == 2);
    }

    #[test]
    fn what_is_read_stays_with_its_column() {
        let tested = Tested::new(200, 2, ROWS);
        tested.read(0, Purpose::Query, 4);
        tested.promote();
        let read = tested.read(0, Purpose::Query, 1);
        let mut other = tested.held(Consumer::Writes, 120);
        assert_eq!((tested.faster(2), tested.columns(2)), (vec![0], 1));
        assert!(other.set(121).is_err());
        drop(read);
        other.set(150).unwrap();
        assert_eq!((tested.faster(2).len(), tested.columns(2)), (0, 1));
    }

    #[test]
    fn a_faster_form_goes_with_its_rows() {
        let tested = Tested::new(1000, 3, ROWS);
        (0..3).for_each(|hash| drop(tested.read(hash, Purpose::Query, 4)));
        let late = tested.hottest();
        tested.promote();
        tested.cache.forget(rows(1));
        let counts = tested.cache.counts();
        assert_eq!((counts.columns, counts.bytes, tested.pool.used(Consumer::Elastic)), (2, 60, 60));
        // What was made of rows that are gone is not kept.
        let faster = (column("plain", ROWS), tested.held(Consumer::Elastic, 30));
        tested.cache.keep_faster(&late[1], Some(faster));
        assert_eq!(tested.pool.used(Consumer::Elastic), 60);
        tested.cache.forget_table(1);
        assert_eq!((tested.pool.held(), tested.cache.counts().columns), (0, 0));
    }

    #[test]
    fn columns_that_may_have_none_lose_theirs() {
        let tested = Tested::new(1000, 1, ROWS);
        tested.read(0, Purpose::Query, 4);
        assert!(tested.cache.hottest(&Allowed::from([(1, vec![8])])).is_empty());
        assert!(tested.cache.hottest(&Allowed::new()).is_empty());
        tested.promote();
        assert_eq!((tested.faster(1), tested.hottest().len()), (vec![0], 0));
        assert!(tested.cache.hottest(&Allowed::from([(1, vec![8])])).is_empty());
        assert_eq!((tested.faster(1).len(), tested.pool.used(Consumer::Elastic)), (0, 0));
    }

    #[test]
    fn colder_ones_make_way_if_they_are_enough() {
        let tested = Tested::new(1000, 3, ROWS);
        (0..3).for_each(|hash| drop(tested.read(hash, Purpose::Query, 4 + usize::try_from(hash).unwrap())));
        tested.promote();
        assert!(!tested.cache.make_way(31, 5.0) && tested.faster(3).len() == 3);
        assert!(tested.cache.make_way(30, 5.0));
        assert_eq!(tested.faster(3), [1, 2]);
        assert!(tested.cache.make_way(31, 9.0) && tested.faster(3).is_empty());
    }
}
