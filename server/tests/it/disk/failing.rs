//! A disk that is full, broken, read only or slow, under every kind of call to every kind of file: what is answered is
//! right, what is told of a write is true, and when it works again all goes on.

use std::{collections::BTreeSet, time::Duration};

use basalt_client::Client;
use futures_util::{StreamExt as _, stream};
use rustix::io::Errno;

use super::{
    Call, Disk, Loss,
    life::{FILES, Model, Step, run, start},
};

/// Those at once.
const AT_ONCE: usize = 4;
/// How soon a server goes on with a disk that works again, in twentieths of a second.
const PATIENCE: u32 = 600;

/// What happens to calls.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Fails(Errno),
    /// By so many milliseconds.
    Slow(u64),
}

/// What a disk does: it has no room or no inodes, is read only, belongs to somebody else, breaks, or is slow.
fn faults() -> Vec<(Call, Fault)> {
    use Call::{Folder, Make, Name, Open, Read, Remove, Sync, Write};
    let fails = |calls: &[Call], error| calls.iter().map(|c| (*c, Fault::Fails(error))).collect::<Vec<_>>();
    [
        fails(&[Make, Write, Name, Folder], Errno::NOSPC),
        fails(&[Make, Name, Remove, Folder], Errno::ROFS),
        fails(&[Make, Open, Name, Remove, Folder], Errno::ACCESS),
        fails(&[Write, Sync, Name, Open, Read], Errno::IO),
        [Write, Sync, Name, Open, Read].map(|call| (call, Fault::Slow(150))).into(),
    ]
    .concat()
}

/// What there may be, from what was answered, and which steps of unknown outcome have then taken place.
struct Possible(Vec<(Model, BTreeSet<usize>)>);

impl Possible {
    /// One client does a step. Every error is one that says what it is.
    async fn step(&mut self, client: &Client, disk: &Disk, number: usize, step: &Step) -> Result<(), String> {
        let done = run(client, disk, &self.0[0].0, number, step).await;
        let mut after = self.0.clone();
        after.iter_mut().for_each(|(model, _)| *model = model.after(step));
        match done.map_err(|error| (error.server().map(|told| told.reason_name()), error)) {
            Ok(()) => self.0 = after,
            Err((Some(reason), error)) => match reason.as_str() {
                "OUTCOME_UNKNOWN" => {
                    for (_, unknown) in &mut after {
                        unknown.insert(number);
                    }
                    self.0.extend(after);
                }
                // Whoever hears these knows that nothing was done.
                "STORE_UNAVAILABLE" | "TABLE_DAMAGED" => {}
                _ => return Err(format!("{step:?}: {error}")),
            },
            Err((None, error)) => return Err(format!("{step:?}: {error}")),
        }
        Ok(())
    }

    /// An answer is one of what there may be, or an error. What was seen once stays.
    async fn answer(&mut self, client: &Client) -> Result<bool, String> {
        let Ok(found) = Model::found(client).await else { return Ok(false) };
        let Some((_, seen)) = self.0.iter().find(|(model, _)| *model == found).cloned() else {
            return Err(format!("there is {found:?}, and there may be {:?}", self.0));
        };
        self.0.retain(|(_, unknown)| unknown.is_superset(&seen));
        Ok(true)
    }

    /// It answers in time.
    async fn answers(&mut self, client: &Client) -> Result<(), String> {
        for _ in 0..PATIENCE {
            if self.answer(client).await? {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(format!("it does not answer any longer: {:?}", Model::found(client).await))
    }
}

async fn trial(call: Call, fault: Fault, file: (&str, &str)) -> Result<(), String> {
    let told = |what: String| format!("{call:?} of a {}, {fault:?}: {what}", file.0);
    let disk = Disk::new();
    let (server, client) = start(&disk).await.unwrap();
    let mut possible = Possible(vec![(Model::default(), BTreeSet::new())]);
    let mut number = 0;
    let mut all = async |possible: &mut Possible, client: &Client, steps: &[Step]| {
        for step in steps {
            number += 1;
            possible.step(client, &disk, number, step).await.map_err(told)?;
        }
        Ok::<_, String>(())
    };
    let mut before = vec![Step::Create("t"), Step::Create("u")];
    before.extend((0..28).map(Step::Write));
    before.extend([Step::Delete(3), Step::Later(5)]);
    all(&mut possible, &client, &before).await?;

    match fault {
        Fault::Fails(error) => disk.fail(call, file.1, error),
        Fault::Slow(delay) => disk.slow(call, file.1, delay),
    }
    let under = [
        Step::Write(50),
        Step::Delete(4),
        Step::Replace(5),
        Step::Create("v"),
        Step::Drop("u"),
        Step::Write(51),
        Step::Write(52),
        Step::Later(700),
        Step::Write(53),
        Step::Later(5),
    ];
    all(&mut possible, &client, &under).await?;
    possible.answer(&client).await.map_err(told)?;
    disk.heal();
    possible.answers(&client).await.map_err(told)?;
    let after = [Step::Write(60), Step::Replace(60), Step::Delete(7), Step::Create("w"), Step::Later(5)];
    all(&mut possible, &client, &after).await?;
    possible.answers(&client).await.map_err(told)?;
    for (model, _) in &possible.0 {
        if !model.ids.contains_key(&60) || model.ids.contains_key(&7) || !model.tables.contains("w") {
            return Err(told(format!("it does not go on: {model:?}")));
        }
    }

    // What it says there is outlives it, and the machine.
    drop(server);
    disk.lose(Loss::Most);
    let (_server, client) = start(&disk).await.unwrap();
    match possible.answer(&client).await.map_err(told)? {
        true => Ok(()),
        false => Err(told(format!("after a restart: {:?}", Model::found(&client).await))),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_fault_of_a_disk_makes_an_answer_wrong_or_keeps_a_server_from_going_on() {
    let every = std::env::var("BASALT_FAULTS").is_ok_and(|which| which == "all");
    let kinds: BTreeSet<_> = FILES.into_iter().collect();
    let all: Vec<_> =
        faults().into_iter().flat_map(|fault| kinds.iter().map(move |kind| (fault, *kind))).collect();
    // A test run takes a part of them that comes to every fault and every kind of file.
    let some = all.into_iter().enumerate().filter(|(i, _)| every || i % 13 == 0);
    let trials = some.map(|(_, ((call, fault), file))| async move {
        tokio::spawn(async move { trial(call, fault, file).await })
            .await
            .unwrap_or_else(|e| Err(e.to_string()))
    });
    let outcomes: Vec<_> = stream::iter(trials).buffer_unordered(AT_ONCE).collect().await;
    let wrong: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    eprintln!("{} faults, {} wrong", outcomes.len(), wrong.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}
