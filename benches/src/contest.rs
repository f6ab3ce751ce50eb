//! A row of a table: contenders that give the same answer, checked before they are timed in turns.

use std::{cell::RefCell, fmt::Debug, hint::black_box, rc::Rc, time::Duration};

use crate::{
    table::{self, figure},
    timing::Race,
};

/// What a contender stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A method that the source describes, written in this package.
    Seed,
    /// Another library.
    Rival,
    /// What the engine calls.
    Ours,
    /// Ours, but not what the engine would call here.
    Other,
}

/// Contenders that must give the same answer.
pub struct Contest<'a, A> {
    entries: Vec<Entry<'a, A>>,
}

struct Entry<'a, A> {
    role: Role,
    name: String,
    run: Box<dyn FnMut() + 'a>,
    answer: Box<dyn Fn() -> A + 'a>,
}

impl<A: Debug> Debug for Contest<'_, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.entries.iter().map(|entry| (entry.role, &entry.name))).finish()
    }
}

impl<A> Default for Contest<'_, A> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<'a, A: PartialEq + Debug + 'a> Contest<'a, A> {
    /// A contest of nobody.
    pub fn new() -> Self {
        Self::default()
    }

    /// Enters a contender that writes to a place of its own, and how to read its answer there.
    pub fn enter<T: Default + 'a>(
        &mut self,
        role: Role,
        name: impl Into<String>,
        mut write: impl FnMut(&mut T) + 'a,
        answer: impl Fn(&T) -> A + 'a,
    ) {
        let place = Rc::new(RefCell::new(T::default()));
        let read = Rc::clone(&place);
        self.entries.push(Entry {
            role,
            name: name.into(),
            run: Box::new(move || write(black_box(&mut place.borrow_mut()))),
            answer: Box::new(move || answer(&read.borrow())),
        });
    }

    /// Runs everybody once, and then in turns.
    ///
    /// # Panics
    /// Where two answers differ: a benchmark of wrong answers is worth nothing.
    pub fn run(mut self, measure: &str, each: Duration) -> Figures {
        let mut first = None;
        for entry in &mut self.entries {
            (entry.run)();
            let answer = (entry.answer)();
            let (name, expected) = first.get_or_insert_with(|| (entry.name.clone(), (entry.answer)()));
            // Answers may be masks of millions of rows, which nobody wants to see.
            assert!(*expected == answer, "{measure}: {} and {name} answer otherwise", entry.name);
        }
        let mut race = Race::new();
        let mut names = Vec::with_capacity(self.entries.len());
        for Entry { role, name, run, .. } in self.entries {
            race.enter(run);
            names.push((role, name));
        }
        let seconds = race.run(each);
        let times =
            names.into_iter().zip(seconds).map(|((role, name), seconds)| Time { role, name, seconds });
        Figures { times: times.collect() }
    }
}

/// What a contender took.
#[derive(Clone, Debug)]
struct Time {
    role: Role,
    name: String,
    seconds: f64,
}

/// What a contest came to.
#[derive(Clone, Debug)]
pub struct Figures {
    times: Vec<Time>,
}

impl Figures {
    /// The fastest of a role, and its seconds.
    pub fn best(&self, role: Role) -> Option<(&str, f64)> {
        let times = self.times.iter().filter(|time| time.role == role);
        let best = times.min_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
        Some((&best.name, best.seconds))
    }

    /// The seconds of a contender.
    pub fn of(&self, name: &str) -> Option<f64> {
        self.times.iter().find(|time| time.name == name).map(|time| time.seconds)
    }

    /// `12.3 chunks`: the best of a role in a unit of so many seconds.
    pub fn cell(&self, role: Role, unit: f64) -> String {
        self.best(role)
            .map_or_else(String::new, |(name, seconds)| format!("{} {name}", figure(seconds / unit)))
    }

    /// The time of a contender in a unit of so many seconds; empty where there is none.
    pub fn time(&self, name: &str, unit: f64) -> String {
        self.of(name).map_or_else(String::new, |seconds| figure(seconds / unit))
    }

    /// How many times as long as ours the best of a role takes.
    pub fn ratio(&self, role: Role) -> Option<f64> {
        Some(self.best(role)?.1 / self.best(Role::Ours)?.1)
    }

    /// [`ratio`](Self::ratio) as a cell.
    pub fn times(&self, role: Role) -> String {
        self.ratio(role).map_or_else(String::new, |ratio| format!("{ratio:.2}x"))
    }

    /// Whether ours reaches a goal, in a unit of so many seconds.
    pub fn goal(&self, goal: Goal, unit: f64) -> String {
        let ahead = |role| self.ratio(role).is_none_or(|ratio| ratio >= 1.0 / SAME);
        let (text, reached) = match goal {
            Goal::None => return String::new(),
            Goal::Ahead => ("ahead".to_owned(), ahead(Role::Seed) && ahead(Role::Rival)),
            Goal::Times(role, least) => {
                let name = if role == Role::Seed { "seed" } else { "rival" };
                let reached = self.ratio(role).is_some_and(|ratio| ratio >= least);
                (format!(">= {least}x {name}"), reached)
            }
            Goal::Within(most) => {
                let reached = self.best(Role::Ours).is_some_and(|(_, seconds)| seconds <= most * unit);
                (format!("<= {most}"), reached)
            }
        };
        if reached { text } else { format!("{text}: missed") }
    }
}

/// Two times that differ by less than the noise count as the same.
const SAME: f64 = 1.05;

/// What ours is to reach.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    /// Nothing in particular.
    None,
    /// Behind nobody, but for the noise.
    Ahead,
    /// So many times as fast as the best of a role.
    Times(Role, f64),
    /// At most so many units.
    Within(f64),
}

/// Prints contests of the same contenders, one a line, in a unit of so many seconds: the best of the source's methods,
/// the rivals by their names, ours and what else there is of ours.
pub fn print(title: &str, measure: &str, unit: f64, lines: &[(String, Figures, Goal)]) {
    let names = |role| {
        let mut names: Vec<&str> = Vec::new();
        let times = lines.iter().flat_map(|(_, figures, _)| &figures.times);
        times.filter(|time| time.role == role).for_each(|time| {
            if !names.contains(&time.name.as_str()) {
                names.push(&time.name);
            }
        });
        names
    };
    let (rivals, ours, others) = (names(Role::Rival), names(Role::Ours), names(Role::Other));
    let header = [measure.to_owned(), "seed method".to_owned()]
        .into_iter()
        .chain(rivals.iter().map(|name| (*name).to_owned()))
        .chain([format!("ours: {}", ours.join(", "))])
        .chain(others.iter().map(|name| (*name).to_owned()))
        .chain(["seed / ours".to_owned(), "rival / ours".to_owned(), "goal".to_owned()])
        .collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|(label, figures, goal)| {
            let time = |name: &&str| figures.time(name, unit);
            [label.clone(), figures.cell(Role::Seed, unit)]
                .into_iter()
                .chain(rivals.iter().map(time))
                .chain([figures
                    .best(Role::Ours)
                    .map_or_else(String::new, |(_, seconds)| figure(seconds / unit))])
                .chain(others.iter().map(time))
                .chain([figures.times(Role::Seed), figures.times(Role::Rival), figures.goal(*goal, unit)])
                .collect()
        })
        .collect();
    table::print(title, &header.iter().map(String::as_str).collect::<Vec<_>>(), &rows);
}
