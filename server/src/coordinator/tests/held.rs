//! The memory of what travels between nodes.

use basalt_core::{
    encoding::TextMembers,
    query::{SipOrigin, TextFilter},
};
use basalt_proto::v1 as pb;

use super::*;

/// What travels counts as memory while it is there: what a task carries, and what is selected until it is united.
#[test]
fn what_travels_is_held() {
    let cluster = Local::new(3);
    let (memory, most) = (Arc::clone(&cluster.memory), Rc::new(Cell::new(0)));
    let seen = Rc::clone(&most);
    *cluster.tamper.borrow_mut() = Some(Box::new(move |_: &mut Vec<Part>| {
        seen.set(seen.get().max(memory.used(Consumer::Parts)));
    }));
    let notes = semi_join("note", "orders", "note", None);
    let select = vec![aggregate(AggregateFunction::Count, "")];
    together(&cluster, Query { select, filter: Some(notes), ..Query::default() }).unwrap();
    // 5,003 texts of up to 9 bytes.
    assert!(most.get() > 40_000, "{} bytes", most.get());
    assert_eq!(cluster.memory.used(Consumer::Parts), 0);

    // Where a part leaves no memory for the union with the others, there is none.
    *cluster.tamper.borrow_mut() =
        Some(Box::new(|parts: &mut Vec<Part>| parts[0].held.set((1 << 30) - 64).unwrap()));
    let control = Control::default();
    let mut coordinator = Coordinator::new(&cluster, &control, false);
    let pinned = coordinator.pin("orders", None).unwrap();
    let unknown = || Some(Filter::IsNull(column("customer")));
    let rows = coordinator.select(&pinned, unknown()).unwrap_err();
    let values = coordinator.select_values(&pinned, "note", unknown()).unwrap_err();
    assert_eq!((rows.reason(), values.reason()), ("MEMORY_LIMIT", "MEMORY_LIMIT"));
    assert_eq!(cluster.memory.used(Consumer::Parts), 0);
}

/// Sets that come with a task count as memory of its work where it is done.
#[test]
fn what_a_task_carries_counts_where_it_is_done() {
    let cluster = Local::new(1);
    let pinned = cluster.pin("orders", None).unwrap();
    let texts: TextMembers = (0..5000).map(|i| format!("note {i:04}").into_boxed_str()).collect();
    let origin = SipOrigin::SemiJoin { table: "orders".into(), key: "note".into(), build_ns: 0 };
    let (column, texts) = ("note".to_owned(), Arc::new(texts));
    let filter = Filter::Texts(TextFilter { column, texts, has_null: false, origin });
    let mut sets = Vec::new();
    let filter = convert::to_filter(&filter, &mut sets, &|_: &str, set: &KeySet| Arc::clone(&set.sip));
    let (heads, data): (Vec<_>, Vec<_>) = sets.iter().map(convert::to_join_set).unzip();
    let request = pb::SelectRequest { table: "orders".into(), filter: Some(filter), ..Default::default() };
    let task = peer::Task { sets: heads, request: Some(Request::Select(request)), ..Default::default() };
    let done = |memory| {
        let (mut waves, control) = (Waiting(&pinned, Vec::new()), Control::with_memory(memory));
        execute(&mut waves, task.clone(), &data, &cluster.sets, &control, &mut |_| Ok(()))
    };
    let bytes = sets.iter().map(BuiltSet::bytes).sum::<usize>();
    assert!(bytes > 2 * data[0].len());
    done(2 * bytes).unwrap();
    assert_eq!(done(bytes / 2).unwrap_err().reason(), "MEMORY_LIMIT");
}
