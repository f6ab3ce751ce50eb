//! Nodes within one process: requests, sets and parts travel as bytes, and the answers are those of one node.

use std::{
    cell::{Cell, RefCell},
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
    rc::Rc,
};

use arrow_array::{ArrayRef, Date32Array, Float64Array, Int64Array, StringArray, UInt16Array};
use basalt_core::{
    exec,
    fragment::{Fragment, FragmentData, Source},
    query::{
        Aggregate, AggregateFunction, ArithmeticOp, Attribute, CompareOp, Expr, Literal, OrderBy, SelectItem,
        SemiJoin,
    },
    schema::{DataType, Field, Reference, Schema},
    table::{Appender, Catalog},
};
use prost::Message as _;

use super::{execute::Waves, *};
use crate::{
    memory::{Consumer, MemoryPool},
    sets::Sets,
};

mod held;
mod strays;

/// A cluster whose nodes hold their fragments of the same tables.
struct Local {
    catalog: Catalog,
    nodes: usize,
    memory: Arc<MemoryPool>,
    sets: Sets,
    /// What happens to parts on their way.
    tamper: RefCell<Option<Tamper>>,
    /// What this process says it has whole.
    whole: RefCell<Option<Arc<Snapshot>>>,
}

/// Changes parts; gets what they were asked.
type Tamper = Box<dyn FnMut(&mut Vec<Part>)>;

impl Local {
    fn new(nodes: usize) -> Self {
        let memory = Arc::new(MemoryPool::new(1 << 30));
        let catalog = Catalog::new();
        load(&catalog, "customers", 7, 100, customers);
        load(&catalog, "orders", 12, 1000, orders);
        let sets = Sets::new(0, Arc::clone(&memory));
        Self { catalog, nodes, memory, sets, tamper: RefCell::default(), whole: RefCell::default() }
    }
}

impl Nodes for Local {
    fn pin(&self, name: &str, version: Option<u64>) -> Result<Pinned> {
        let table = self.catalog.get(name)?;
        let snapshot = table.snapshot_at(version).map_err(|e| e.at("version"))?;
        let fragments = snapshot.fragments().iter().map(Fragment::id).collect();
        Ok(Pinned { table, version: TableVersion::InMemory(snapshot), fragments, cutoff: None })
    }

    fn ask(&self, pinned: &Pinned, task: Task, fragments: &[u32]) -> Result<Vec<Part>> {
        let mut shares = vec![Vec::new(); self.nodes];
        for fragment in fragments {
            let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(fragment);
            shares[usize::try_from(hash % self.nodes as u64).unwrap()].push(*fragment);
        }
        let (mut parts, all) = (Vec::new(), pinned.table.snapshot());
        for (node, share) in shares.into_iter().enumerate().filter(|(_, share)| !share.is_empty()) {
            let held = share.iter().map(|id| all.fragment(*id).unwrap().clone()).collect();
            let snapshot = Snapshot::new(pinned.version.number(), held);
            let head = peer::Task::decode(&*task.head.encode_to_vec()).unwrap();
            let sent = head.encoded_len() + task.data.iter().map(Bytes::len).sum::<usize>();
            let mut messages: Vec<Bytes> = Vec::new();
            let end = super::execute::execute(
                &mut Waiting(pinned, snapshot.fragments().to_vec()),
                head,
                &task.data,
                &self.sets,
                &Control::with_memory(1 << 28),
                &mut |message| {
                    messages.push(message);
                    Ok(())
                },
            )?;
            let received = messages.iter().map(|message| message.len() as u64).sum();
            parts.push(Part {
                node: format!("node{node}").into(),
                fragments: share,
                messages,
                end,
                shipped: (sent as u64, received),
                elapsed_ns: 0,
                held: self.memory.reserve(Consumer::Parts),
            });
        }
        // They come in any order.
        parts.reverse();
        if let Some(tamper) = &mut *self.tamper.borrow_mut() {
            tamper(&mut parts);
        }
        Ok(parts)
    }

    fn in_memory(
        &self,
        pinned: &Pinned,
        _: &[u32],
        _: &[usize],
        _: Purpose,
    ) -> Result<Option<Arc<Snapshot>>> {
        let whole = self.whole.borrow().clone();
        Ok(whole.filter(|_| pinned.table.name() == "orders"))
    }

    fn count(&self) -> usize {
        self.nodes
    }

    fn memory(&self) -> Reservation {
        self.memory.reserve(Consumer::Parts)
    }
}

/// Fragments of a task, two of which fit into memory at once.
struct Waiting<'a>(&'a Pinned, Vec<Fragment>);

impl Waves for Waiting<'_> {
    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.0.table)
    }

    fn none(&self) -> Snapshot {
        Snapshot::clone(&self.0.snapshot())
    }

    fn next(&mut self, columns: &[usize]) -> Result<Option<Arc<Snapshot>>> {
        let wave: Vec<Fragment> = self.1.drain(..self.1.len().min(2)).collect();
        let read = |fragment: Fragment| {
            let of = |place| fragment.data().loaded(place).filter(|_| columns.contains(&place)).cloned();
            let read = (0..fragment.data().width()).map(of).collect();
            let data = FragmentData::of_columns(fragment.rows(), read).unwrap();
            let deleted = fragment.deleted().cloned();
            Fragment::new(fragment.id(), data).with_deleted(deleted).with_source(fragment.source().unwrap())
        };
        Ok((!wave.is_empty())
            .then(|| Arc::new(Snapshot::new(self.0.version.number(), wave.into_iter().map(read).collect()))))
    }
}

/// A table of fragments with as many rows each.
fn load(
    catalog: &Catalog,
    name: &str,
    fragments: u32,
    rows: i64,
    make: fn(std::ops::Range<i64>) -> Vec<(Field, ArrayRef)>,
) {
    let fields = make(0..0).into_iter().map(|(field, _)| field);
    let table = catalog.create(name, Schema::new(fields.collect()).unwrap()).unwrap();
    let mut all = Vec::new();
    for id in 0..fragments {
        let start = i64::from(id) * rows;
        let arrays = make(start..start + rows).into_iter().map(|(_, array)| array).collect();
        let batch = RecordBatch::try_new(table.schema().to_arrow(), arrays).unwrap();
        let mut appender = Appender::new(Arc::clone(&table), &[]).unwrap();
        appender.push(&batch).unwrap();
        let source = Source { rows: u64::from(id) + 1, deletions: 0 };
        let data = appender.finish().unwrap().into_iter();
        all.extend(data.map(|data| Fragment::new(id, data).with_source(source)));
    }
    table.install(Snapshot::new(table.snapshot().version() + 1, all));
}

fn customers(ids: std::ops::Range<i64>) -> Vec<(Field, ArrayRef)> {
    let nations = ids.clone().map(|i| (i % 11 != 5).then(|| format!("nation {}", i * i % 7)));
    let keys = ids.map(|i| u16::try_from(i).unwrap());
    vec![
        (Field::new("id", DataType::UInt16, false), Arc::new(UInt16Array::from_iter_values(keys))),
        (Field::new("nation", DataType::Utf8, true), Arc::new(StringArray::from_iter(nations))),
    ]
}

#[allow(clippy::cast_precision_loss, reason = "small numbers")]
fn orders(ids: std::ops::Range<i64>) -> Vec<(Field, ArrayRef)> {
    let of = |f: fn(i64) -> Option<i64>| Arc::new(Int64Array::from_iter(ids.clone().map(f)));
    let prices = ids.clone().map(|i| (i % 13 != 0).then_some(1e16 / (i as f64 + 0.1) - i as f64));
    let notes = ids.clone().map(|i| format!("note {}", i * 7919 % 5003));
    let days = ids.clone().map(|i| i32::try_from(i / 50).unwrap());
    let customer = Reference { table: "customers".to_owned(), column: "id".to_owned() };
    vec![
        (Field::new("id", DataType::Int64, false), of(Some)),
        (
            Field { references: Some(customer), ..Field::new("customer", DataType::Int64, true) },
            of(|i| (i % 17 != 3).then_some(i * 31 % 900)),
        ),
        (Field::new("price", DataType::Float64, true), Arc::new(Float64Array::from_iter(prices))),
        (Field::new("note", DataType::Utf8, false), Arc::new(StringArray::from_iter_values(notes))),
        (Field::new("day", DataType::Date32, false), Arc::new(Date32Array::from_iter_values(days))),
    ]
}

fn column(name: &str) -> Expr {
    Expr::Column(name.into())
}

/// The nation of an order's customer.
fn nation() -> Expr {
    Expr::Attribute(Attribute { column: "customer".into(), name: "nation".into(), lookup: None })
}

fn int(value: i64) -> Expr {
    Expr::Literal(Literal::Int(value))
}

fn item(expr: Expr) -> SelectItem {
    SelectItem { expr, name: None }
}

fn aggregate(function: AggregateFunction, argument: &str) -> SelectItem {
    let argument = (!argument.is_empty()).then(|| column(argument));
    item(Expr::Aggregate(Box::new(Aggregate { function, argument, distinct: false })))
}

fn distinct(argument: &str) -> SelectItem {
    let argument = Some(column(argument));
    let function = AggregateFunction::Count;
    item(Expr::Aggregate(Box::new(Aggregate { function, argument, distinct: true })))
}

fn by(name: &str, descending: bool) -> OrderBy {
    OrderBy { expr: column(name), descending, nulls_first: false, of_table: false }
}

fn semi_join(column: &str, table: &str, key: &str, filter: Option<Filter>) -> Filter {
    let (column, table, key) = (column.into(), table.into(), key.into());
    Filter::SemiJoin(Box::new(SemiJoin { column, table, key, filter, version: None }))
}

fn of_nation(nation: &str) -> Filter {
    let filter = Filter::Compare(CompareOp::Eq, column("nation"), text(nation));
    semi_join("customer", "customers", "id", Some(filter))
}

fn text(text: &str) -> Expr {
    Expr::Literal(Literal::Text(text.into()))
}

/// Queries over `orders`, of every shape.
fn queries() -> Vec<Query> {
    use AggregateFunction::{Avg, Count, Max, Min, Sum};
    let all = || {
        vec![
            aggregate(Count, ""),
            aggregate(Sum, "price"),
            aggregate(Avg, "price"),
            aggregate(Sum, "customer"),
            aggregate(Min, "note"),
            aggregate(Max, "note"),
            aggregate(Max, "day"),
            distinct("note"),
            distinct("customer"),
        ]
    };
    let some = |from: i64, to: i64| Filter::Between(column("id"), int(from), int(to));
    let with = |key: &str| [vec![item(column(key))], all()].concat();
    let late = Filter::Compare(CompareOp::Gt, column("id"), int(9000));
    let nested = semi_join("id", "orders", "customer", Some(late));
    let nested = Filter::Not(Box::new(semi_join("customer", "customers", "id", Some(nested))));
    let notes = semi_join("note", "orders", "note", Some(some(100, 130)));
    let quotient = Expr::Arithmetic(ArithmeticOp::Divide, Box::new(int(1)), Box::new(column("id")));
    vec![
        Query { select: all(), ..Query::default() },
        Query { select: all(), filter: Some(of_nation("nation 2")), ..Query::default() },
        Query { select: all(), filter: Some(Filter::Constant(false)), ..Query::default() },
        Query { select: with("day"), group_by: vec![column("day")], ..Query::default() },
        Query {
            select: with("customer"),
            group_by: vec![column("customer")],
            having: Some(Filter::Compare(CompareOp::Gt, aggregate(Count, "").expr, int(12))),
            order_by: vec![OrderBy {
                expr: aggregate(Sum, "price").expr,
                descending: true,
                nulls_first: false,
                of_table: false,
            }],
            limit: Some(20),
            offset: 3,
            ..Query::default()
        },
        Query {
            select: with("note"),
            group_by: vec![column("note")],
            filter: Some(nested),
            ..Query::default()
        },
        Query { filter: Some(notes), ..Query::default() },
        Query { limit: Some(10), offset: 2995, ..Query::default() },
        Query { filter: Some(of_nation("nation 1")), order_by: vec![by("price", true)], ..Query::default() },
        Query { order_by: vec![by("customer", false), by("day", true)], limit: Some(7), ..Query::default() },
        // The quotient of the first row has no value, and only the second is shown.
        Query {
            select: vec![item(quotient.clone()), item(column("id"))],
            order_by: vec![by("id", false)],
            limit: Some(1),
            offset: 1,
            ..Query::default()
        },
        Query { select: vec![item(quotient)], ..Query::default() },
        // Attributes of groups, of the rows of one nation's customers, of rows that have none.
        Query {
            select: [vec![item(nation())], all()].concat(),
            group_by: vec![nation()],
            ..Query::default()
        },
        Query {
            select: vec![item(nation()), item(column("day")), aggregate(Count, "")],
            filter: Some(Filter::Compare(CompareOp::Gt, nation(), text("nation 1"))),
            group_by: vec![column("day"), nation()],
            having: Some(Filter::Compare(CompareOp::Ne, nation(), text("nation 4"))),
            ..Query::default()
        },
        Query {
            select: vec![item(column("id")), item(nation())],
            filter: Some(Filter::IsNull(nation())),
            order_by: vec![by("price", true)],
            ..Query::default()
        },
        Query { select: vec![item(nation()), item(column("id"))], limit: Some(2000), ..Query::default() },
    ]
}

type Answer = Result<(Vec<String>, Statistics)>;

fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let rows = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| batch.slice(row, 1)));
    rows.map(|row| format!("{:?}", row.columns())).collect()
}

fn alone(cluster: &Local, mut query: Query) -> Answer {
    let (table, control) = (cluster.catalog.get("orders").unwrap(), Control::default());
    let snapshot = table.snapshot();
    exec::resolve(&cluster.catalog, &table, &snapshot, &mut query, &control)?;
    let mut batches = Vec::new();
    let statistics = Plan::new(&table, &snapshot, &query)?.run(&snapshot, &control, &mut |batch| {
        batches.push(batch);
        Ok(())
    })?;
    Ok((rows(&batches), statistics))
}

fn together(cluster: &Local, query: Query) -> Answer {
    let control = Control::default();
    let mut coordinator = Coordinator::new(cluster, &control, false);
    let pinned = coordinator.pin("orders", None)?;
    let (query, plan) = coordinator.resolve(&pinned, query)?;
    let mut batches = Vec::new();
    let statistics = coordinator.run(&pinned, &query, &plan, &mut |batch| {
        batches.push(batch);
        Ok(())
    })?;
    Ok((rows(&batches), statistics))
}

#[test]
fn nodes_answer_as_one_does() {
    for nodes in [1, 2, 3, 7] {
        let cluster = Local::new(nodes);
        for (i, query) in queries().into_iter().enumerate() {
            let limited = query.limit.is_some() && query.order_by.is_empty();
            match (alone(&cluster, query.clone()), together(&cluster, query)) {
                (Ok(alone), Ok(together)) => {
                    assert_eq!(together.0, alone.0, "query {i} on {nodes} nodes");
                    // How far they go before there are enough rows differs.
                    assert!(limited || together.1 == alone.1, "query {i}: {:?}, {:?}", together.1, alone.1);
                }
                (Err(alone), Err(together)) => assert_eq!(together.reason(), alone.reason()),
                (alone, together) => panic!("query {i} on {nodes} nodes: {alone:?}, {together:?}"),
            }
        }
    }
}

#[test]
fn selections_are_united() {
    let cluster = Local::new(3);
    let (table, control) = (cluster.catalog.get("orders").unwrap(), Control::default());
    let snapshot = table.snapshot();
    let mut resolved = of_nation("nation 4");
    exec::resolve_filter(&cluster.catalog, &table, &snapshot, &mut resolved, &control).unwrap();
    let mut coordinator = Coordinator::new(&cluster, &control, false);
    let pinned = coordinator.pin("orders", None).unwrap();
    let (sip, statistics) = coordinator.select(&pinned, Some(of_nation("nation 4"))).unwrap();
    let alone = exec::select(&table, &snapshot, Some(&resolved), &control).unwrap();
    assert_eq!((sip.iter().collect::<Vec<_>>(), statistics), (alone.0.iter().collect(), alone.1));
    let unknown = || Filter::IsNull(nation());
    let mut resolved_unknown = unknown();
    exec::resolve_filter(&cluster.catalog, &table, &snapshot, &mut resolved_unknown, &control).unwrap();
    let (sip, _) = coordinator.select(&pinned, Some(unknown())).unwrap();
    let alone = exec::select(&table, &snapshot, Some(&resolved_unknown), &control).unwrap();
    assert!(sip.iter().eq(alone.0.iter()) && !sip.is_empty());
    for key in ["customer", "note", "day"] {
        let filter = || Some(of_nation("nation 4"));
        let (values, _) = coordinator.select_values(&pinned, key, filter()).unwrap();
        let alone = exec::select_values(&table, &snapshot, key, Some(&resolved), &control).unwrap().0;
        let ids = |set: BuiltSet| match set {
            BuiltSet::Keys { sip, has_null, .. } => (sip.iter().collect(), Vec::new(), has_null),
            BuiltSet::Texts { texts, has_null } => (Vec::new(), texts.texts().to_vec(), has_null),
        };
        assert_eq!(ids(values), ids(alone), "{key}");
    }
    assert!(coordinator.into_hops().iter().all(|hop| hop.shipped.0 > 0 && hop.shipped.1 > 0));
}

#[test]
fn fragments_without_rows_are_not_asked_and_sets_are_cut() {
    let cluster = Local::new(3);
    let hops = |filter: Filter| {
        let control = Control::default();
        let mut coordinator = Coordinator::new(&cluster, &control, false);
        let pinned = coordinator.pin("orders", None).unwrap();
        let (sip, _) = coordinator.select(&pinned, Some(filter)).unwrap();
        let own = coordinator.into_hops().into_iter().filter(|hop| hop.what.is_empty());
        let (fragments, sets) =
            own.fold((0, 0), |(fragments, sets), hop| (fragments + hop.fragments, sets.max(hop.sets)));
        (sip.cardinality(), fragments, sets)
    };
    let among = |from, to| Filter::Between(column("id"), int(from), int(to));
    assert_eq!(hops(Filter::Constant(true)), (12_000, 12, 0));
    assert_eq!(hops(among(1990, 2010)), (21, 2, 0));
    assert_eq!(hops(Filter::Not(Box::new(among(1000, 20_000)))), (1000, 1, 0));
    // Every third order by its id: of 4,000 keys those of one fragment travel.
    let thirds = Filter::In(column("customer"), (0..300).map(|i| Literal::Int(3 * i)).collect());
    let (all, fragments, whole) = hops(semi_join("id", "orders", "id", Some(thirds.clone())));
    assert!(all > 3000 && fragments == 12 && whole > 1000, "{whole} bytes");
    let one = Filter::And(vec![semi_join("id", "orders", "id", Some(thirds)), among(0, 999)]);
    let (some, fragments, cut) = hops(one);
    assert!(some < 400 && fragments == 1 && cut * 8 < whole, "{cut} of {whole} bytes");
    // All ids of a range take no room.
    let (all, _, range) = hops(semi_join("id", "orders", "id", None));
    assert!(all == 12_000 && range < 32, "{range} bytes");
    // No key is left; nulls are still in a set that is not empty, and so unknown.
    let none = Filter::Not(Box::new(semi_join("customer", "orders", "id", Some(among(5000, 6000)))));
    let (not_null, _, left) = hops(none);
    assert!(not_null == 12_000 - 706 && left < 16, "{not_null} rows, {left} bytes");
}

#[test]
fn errors_say_what_and_where() {
    let cluster = Local::new(2);
    let check = |filter: Filter, reason: &str, place: &str| {
        let query = Query { filter: Some(filter), ..Query::default() };
        let error = together(&cluster, query.clone()).unwrap_err();
        assert_eq!((error.reason(), error.place()), (reason, Some(place)), "{}", error.message());
        let alone = alone(&cluster, query).unwrap_err();
        assert_eq!((error.message(), error.place()), (alone.message(), alone.place()));
    };
    check(semi_join("id", "none", "id", None), "TABLE_NOT_FOUND", "filter.semi_join.table");
    check(semi_join("id", "customers", "x", None), "COLUMN_NOT_FOUND", "filter.semi_join.key");
    check(semi_join("id", "orders", "price", None), "TYPE_MISMATCH", "filter.semi_join.key");
    check(semi_join("price", "customers", "id", None), "TYPE_MISMATCH", "filter.semi_join.column");
    let wrong = Filter::IsNull(column("x"));
    let place = "filter.semi_join.filter.is_null.column";
    check(semi_join("id", "customers", "id", Some(wrong)), "COLUMN_NOT_FOUND", place);
}

/// What may go wrong with parts between those that answer and the one that asked.
fn wrong(parts: &mut Vec<Part>, how: usize, at: usize) -> bool {
    let place = at % parts.len();
    let part = &mut parts[place];
    let fragment = at / 7 % part.end.answered.len().max(1);
    let Some(told) = part.end.answered.get_mut(fragment) else { return false };
    match how {
        // A part is lost, or comes twice.
        0 => drop(parts.remove(place)),
        1 => {
            let (node, end) = (Arc::clone(&part.node), part.end.clone());
            let (fragments, messages) = (part.fragments.clone(), part.messages.clone());
            let held = Arc::new(MemoryPool::new(1)).reserve(Consumer::Parts);
            parts.push(Part { node, fragments, messages, end, shipped: (0, 0), elapsed_ns: 0, held });
        }
        // A fragment is lost, or another one, or is of another version.
        2 => drop(part.end.answered.remove(fragment)),
        3 => told.id += 100,
        4 => told.rows += 1,
        5 => told.deletions += 1,
        // What one node had to answer, another has answered as well.
        _ => {
            let (told, other) = (*told, (at + 1) % parts.len());
            parts[other].end.answered.push(told);
        }
    }
    true
}

/// Parts that are removed, doubled and misdirected at random are errors, never another answer.
#[test]
fn what_does_not_cover_the_version_is_an_error() {
    let cluster = Local::new(3);
    let right: Vec<Answer> = queries().into_iter().map(|query| together(&cluster, query)).collect();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed >> 33).unwrap()
    };
    let (mut tried, mut named) = (0, 0);
    for _ in 0..20 {
        for (i, query) in queries().into_iter().enumerate() {
            let (how, at, which) = (random() % 7, random(), random() % 3);
            let (asked, changed) = (Cell::new(0), Rc::new(Cell::new(false)));
            let done = Rc::clone(&changed);
            *cluster.tamper.borrow_mut() = Some(Box::new(move |parts| {
                if asked.replace(asked.get() + 1) == which && !parts.is_empty() {
                    done.set(wrong(parts, how, at));
                }
            }));
            let answer = together(&cluster, query);
            *cluster.tamper.borrow_mut() = None;
            match (answer, &right[i]) {
                (Err(error), _) if changed.get() => {
                    named +=
                        usize::from(error.reason() == "INCOMPLETE" && error.message().contains("fragment "));
                    tried += 1;
                }
                (_, Ok(_)) if changed.get() => panic!("query {i}: tampered with by {how}, and answered"),
                (Ok(answer), Ok(right)) => assert_eq!(&answer.0, &right.0, "query {i}"),
                (Err(error), Err(right)) => assert_eq!(error.reason(), right.reason()),
                (answer, right) => panic!("query {i}: {answer:?}, {right:?}"),
            }
        }
    }
    assert!(tried > 100 && named == tried, "{named} of {tried}");
}

/// What a process has whole is compared with the version like the parts of others.
#[test]
fn what_is_here_covers_the_version_or_is_an_error() {
    let cluster = Local::new(1);
    let all = cluster.catalog.get("orders").unwrap().snapshot();
    let of = |fragments: Vec<Fragment>| Some(Arc::new(Snapshot::new(all.version(), fragments)));
    let right: Vec<Answer> = queries().into_iter().map(|query| together(&cluster, query)).collect();
    *cluster.whole.borrow_mut() = of(all.fragments().to_vec());
    for (i, (query, right)) in queries().into_iter().zip(&right).enumerate() {
        match (together(&cluster, query), right) {
            (Ok(answer), Ok(right)) => assert_eq!(&answer.0, &right.0, "query {i}"),
            (Err(error), Err(right)) => assert_eq!(error.reason(), right.reason(), "query {i}"),
            (answer, right) => panic!("query {i}: {answer:?}, {right:?}"),
        }
    }
    let (first, rest) = all.fragments().split_first().unwrap();
    let other = first.clone().with_source(Source { rows: 77, deletions: 0 });
    let deleted = first.clone().with_source(Source { deletions: 7, ..first.source().unwrap() });
    for wrong in [of(rest.to_vec()), of([&[other], rest].concat()), of([&[deleted], rest].concat())] {
        *cluster.whole.borrow_mut() = wrong;
        for (i, query) in queries().into_iter().enumerate().filter(|(i, _)| right[*i].is_ok()) {
            let Err(error) = together(&cluster, query) else { panic!("query {i} was answered") };
            assert_eq!(error.reason(), "INCOMPLETE", "query {i}");
            assert!(error.message().contains("fragment 0"), "query {i}: {}", error.message());
        }
    }
}
