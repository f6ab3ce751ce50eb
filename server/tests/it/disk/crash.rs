//! The process is killed, and the machine, before, in and after each kind of call that it makes to its files: what was
//! acknowledged is there, what was under way is there whole or not at all, and sent again it is there once.
//!
//! `BASALT_CRASHES=5000` makes more of it, `BASALT_CRASH=7` the one of that number again, and `BASALT=program` kills
//! another program than the one of the tests, such as a faster one (`scripts/crash`).

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt as _, stream};
use indicatif::{ProgressBar, ProgressStyle};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};

use super::{
    Call, Disk, Loss, Moment,
    life::{FILES, Model, Step, matches, run, start, steps},
};

/// Crashes of a test run.
const CRASHES: u64 = 60;
/// Those at once: most of the time they wait for the disk.
const AT_ONCE: usize = 4;
/// Where a process is killed, and how often it comes there in a life in which it is not.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) call: Call,
    pub(super) paths: &'static str,
    pub(super) moment: Moment,
    pub(super) times: u64,
}

/// All of them.
pub(super) async fn points() -> Vec<Point> {
    let disk = Disk::new();
    let (server, client) = start(&disk).await.unwrap();
    let mut model = Model::default();
    for (number, step) in steps().iter().enumerate() {
        run(&client, &disk, &model, number, step).await.unwrap();
        model = model.after(step);
    }
    assert_eq!(Model::found(&client).await, Ok(model));
    drop(server);
    let mut times: BTreeMap<(Call, usize), u64> = BTreeMap::new();
    for (call, path) in disk.calls() {
        let is_its = |(_, pattern): &(&str, &str)| matches(pattern.as_bytes(), path.as_bytes());
        let changes = !matches!(call, Call::Open | Call::Read);
        if let Some(file) = FILES.iter().position(is_its).filter(|_| changes) {
            *times.entry((call, file)).or_default() += 1;
        }
    }
    let mut points = Vec::new();
    for ((call, file), times) in times {
        for moment in [Moment::Before, Moment::Middle, Moment::After] {
            if moment != Moment::Middle || call == Call::Write {
                points.push(Point { call, paths: FILES[file].1, moment, times });
            }
        }
    }
    points
}

/// What came of a crash.
#[derive(Default)]
pub(super) struct Crash {
    /// Whether the process came to the call.
    pub(super) ended: bool,
    /// What the disk lost.
    pub(super) lost: usize,
}

/// What follows from the number of a crash: where it is, what of the disk's losses it has, and what else is by chance.
pub(super) struct Choice {
    pub(super) loss: u32,
    pub(super) chance: StdRng,
    point: Point,
    nth: u64,
    name: String,
}

impl Choice {
    pub(super) fn of(points: &[Point], number: u64, losses: u32) -> Self {
        let mut chance = StdRng::seed_from_u64(number);
        let point = points.choose(&mut chance).unwrap().clone();
        let nth = chance.random_range(1..=point.times);
        let loss = chance.random_range(0..losses);
        let name = format!("crash {number}, {point:?} {nth}, loss {loss}");
        Self { loss, chance, point, nth, name }
    }

    /// A process on the disk ends there.
    pub(super) fn order(&self, disk: &Disk) {
        disk.end_at(self.point.call, self.point.paths, self.point.moment, self.nth);
    }

    /// What is wrong, and with which crash.
    pub(super) fn tells(&self) -> impl Fn(String) -> String + use<> {
        let name = self.name.clone();
        move |what| format!("{name}: {what}")
    }
}

async fn crash(points: Vec<Point>, number: u64) -> Result<Crash, String> {
    let mut choice = Choice::of(&points, number, 3);
    let told = choice.tells();

    let disk = Disk::new();
    choice.order(&disk);
    let mut crash = Crash::default();
    let (mut model, mut pending) = (Model::default(), None);
    let all = steps();
    // A start may come there as well.
    match start(&disk).await {
        None => crash.ended = true,
        Some((_server, client)) => {
            for (number, step) in all.iter().enumerate() {
                if run(&client, &disk, &model, number, step).await.is_err() {
                    crash.ended = true;
                    pending = Some((number, step));
                    break;
                }
                model = model.after(step);
            }
        }
    }
    disk.end_never();
    crash.lost += disk.lose(match choice.loss {
        0 => Loss::Nothing,
        1 => Loss::Most,
        _ => Loss::Some(&mut choice.chance),
    });

    let (server, client) = start(&disk).await.unwrap();
    let found = Model::found(&client).await.map_err(&told)?;
    let after = pending.as_ref().map_or_else(|| model.clone(), |(_, step)| model.after(step));
    if found != model && found != after {
        return Err(told(format!("at {pending:?} there is {found:?}, acknowledged was {model:?}")));
    }
    // What nobody has heard of is sent again.
    if let Some((number, step)) = pending {
        run(&client, &disk, &model, number, step).await.map_err(|e| told(format!("{step:?} again: {e}")))?;
    }
    let mut model = after;
    // It goes on, and what is acknowledged now outlives another crash.
    if model.tables.contains("t") {
        for (number, step) in [Step::Write(100), Step::Replace(100)].iter().enumerate() {
            run(&client, &disk, &model, 1000 + number, step).await.map_err(|e| told(e.to_string()))?;
            model = model.after(step);
        }
    }
    drop(server);
    crash.lost += disk.lose(Loss::Most);
    let (_server, client) = start(&disk).await.unwrap();
    let found = Model::found(&client).await.map_err(&told)?;
    if found != model {
        return Err(told(format!("in the end there is {found:?}, acknowledged was {model:?}")));
    }
    Ok(crash)
}

/// A number that the environment names.
pub(super) fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

/// So many of them, or as many as are asked for.
pub(super) async fn crashes<F>(points: &[Point], least: u64, crash: impl Fn(Vec<Point>, u64) -> F)
where
    F: Future<Output = Result<Crash, String>> + Send + 'static,
{
    let (first, crashes) =
        (asked("BASALT_FIRST_CRASH").unwrap_or(0), asked("BASALT_CRASHES").unwrap_or(least));
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} crashes, {eta} left").unwrap();
    let bar = ProgressBar::new(crashes).with_style(style);
    let (mut ended, mut lost, mut wrong) = (0, 0, Vec::new());
    let mut running = stream::iter(first..first + crashes)
        .map(|number| {
            let crash = tokio::spawn(crash(points.to_vec(), number));
            async { crash.await.unwrap_or_else(|panic| Err(panic.to_string())) }
        })
        .buffer_unordered(AT_ONCE);
    while let Some(crash) = running.next().await {
        bar.inc(1);
        match crash {
            Ok(crash) => (ended, lost) = (ended + u64::from(crash.ended), lost + crash.lost),
            Err(what) => {
                bar.suspend(|| eprintln!("{what}"));
                wrong.push(what);
            }
        }
    }
    bar.finish();
    let kinds: BTreeSet<(Call, &str)> = points.iter().map(|point| (point.call, point.paths)).collect();
    eprintln!(
        "{crashes} crashes at {} calls, {} moments: {ended} in a step, {lost} files lost what was not synced, {} wrong",
        kinds.len(),
        points.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Half of them at least come to where they are to end.
    assert!(kinds.len() >= 15 && ended * 2 > crashes && lost > 0, "{kinds:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_crash_at_any_call_loses_doubles_or_halves_anything() {
    let points = points().await;
    match asked("BASALT_CRASH") {
        Some(number) => drop(crash(points, number).await.unwrap()),
        None => crashes(&points, CRASHES, crash).await,
    }
}
