//! Rows of a selection that nobody has asked for.

use super::*;

/// An address among those that a node says, by the fragments that it was asked for.
type Stray = fn(&[u32]) -> Option<u64>;

/// How many rows are selected where one part has another row beside its own, by the fragments that it was asked for.
fn selected(cluster: &Local, stray: Stray) -> Result<u64> {
    *cluster.tamper.borrow_mut() = Some(Box::new(move |parts: &mut Vec<Part>| {
        let part = &mut parts[0];
        let own = convert::addresses(&part.messages[0]).unwrap();
        let all = Sip::from_ids(own.iter().chain(stray(&part.fragments)));
        part.messages = vec![Bytes::copy_from_slice(all.as_bytes())];
    }));
    let control = Control::default();
    let mut coordinator = Coordinator::new(cluster, &control, false);
    let pinned = coordinator.pin("orders", None)?;
    let unknown = Filter::IsNull(column("customer"));
    Ok(coordinator.select(&pinned, Some(unknown))?.0.cardinality())
}

/// A part has rows of the fragments that it was asked for, and none of others: who deletes takes away what is selected.
#[test]
fn rows_that_were_not_asked_for_are_an_error() {
    let cluster = Local::new(3);
    assert_eq!(selected(&cluster, |_| None).unwrap(), 706);
    assert!(selected(&cluster, |own| Some((u64::from(own[0]) << 32) + 999)).unwrap() <= 707);
    let strays: [Stray; 5] = [
        // Behind the last row of a fragment, and of the last one.
        |own| Some((u64::from(own[0]) << 32) + 1000),
        |own| Some((u64::from(*own.last()?) << 32) + 1000),
        // Of another part, of no fragment, of none that there could be.
        |own| (0..12).find(|id| !own.contains(id)).map(|id| u64::from(id) << 32),
        |_| Some(12 << 32),
        |_| Some(u64::MAX),
    ];
    for (i, stray) in strays.into_iter().enumerate() {
        let error = selected(&cluster, stray).unwrap_err();
        assert_eq!(error.reason(), "INCOMPLETE", "{i}");
        assert!(error.message().contains("not asked for"), "{i}: {}", error.message());
    }
}
