//! Whole nodes in one thread and in a time of its own, with faults by chance, and a checker that hears every answer.
//!
//! Everything that differs between two runs follows from the seed: what clients ask, when calls to the store and messages
//! arrive, which fail, which nodes crash, leave, come back or cannot reach each other. `scripts/check-simulation` runs as
//! many seeds as one likes; `BASALT_SEED=7 cargo test -p basalt-server --lib simulation::one` runs one again, and
//! `BASALT_TRACE=file` writes down what happened.

mod client;
mod disks;
mod model;
mod node;
mod store;
mod threads;
mod trace;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    net::SocketAddr,
    ops::Range,
    rc::Rc,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use futures_util::future::join_all;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use turmoil::Sim;

use self::{
    client::{Client, excused},
    disks::Disks,
    model::{Kind, Model},
    node::{Names, Node, Skew, any},
    store::Objects,
    trace::Trace,
};
use crate::{Config, Doors, Memory, environment::Environment, membership::PROTOCOL, run_in, state::State};
use basalt_proto::v1::ErrorReason;

/// That of the binary, which is faster where so much comes and goes.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const STORE: &str = "simulated:store";
/// How long there are faults; and where files are to be removed meanwhile, which begins a minute after a start.
const FAULTS: Duration = Duration::from_secs(25);
const LONG_FAULTS: Duration = Duration::from_secs(100);
/// How long all is well behind them.
const QUIET: Duration = Duration::from_secs(3);
/// How long it may take until everybody answers when they are over.
const HEALED: Duration = Duration::from_secs(30);
/// Clients that ask at the same time.
const CLIENTS: usize = 4;

type Outcome = Result<(), String>;

/// What is done to nodes from outside of them.
enum Command {
    Crash(usize),
    Start(usize),
}

/// What the nodes of a run share, and who looks at them.
#[derive(Clone)]
struct World {
    seed: u64,
    nodes: usize,
    /// They find each other by a name.
    by_name: bool,
    objects: Arc<Objects>,
    /// In every second four of seeds.
    disks: Option<Arc<Disks>>,
    trace: Trace,
    names: Names,
    states: Arc<Mutex<Vec<Weak<State>>>>,
    /// Counts the times that a node was told to leave.
    leave: Arc<Vec<watch::Sender<()>>>,
    starts: Arc<Mutex<u64>>,
    commands: Rc<RefCell<Vec<Command>>>,
    up: Rc<RefCell<BTreeSet<usize>>>,
    /// There are no faults any longer.
    is_quiet: Rc<Cell<bool>>,
    model: Rc<RefCell<Model>>,
    /// The newest version that each node has answered with, whatever has become of it since.
    seen: Rc<RefCell<Vec<u64>>>,
}

/// See [`World::known`].
#[derive(Clone, Copy)]
struct Known {
    acknowledged: u64,
    seen: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let nodes = 3 + usize::try_from(seed % 3).unwrap();
        Self {
            seed,
            nodes,
            by_name: seed % 4 == 3,
            objects: Arc::default(),
            disks: (seed / 4 % 2 == 1).then(|| Arc::new(Disks::new())),
            trace: Trace::new(),
            names: Names::default(),
            states: Arc::new(Mutex::new((0..nodes).map(|_| Weak::new()).collect())),
            leave: Arc::new((0..nodes).map(|_| watch::Sender::new(())).collect()),
            starts: Arc::default(),
            commands: Rc::default(),
            up: Rc::new(RefCell::new((0..nodes).collect())),
            is_quiet: Rc::default(),
            model: Rc::default(),
            seen: Rc::new(RefCell::new(vec![0; nodes])),
        }
    }

    /// Nodes seldom crash or leave, and files that no version needs are removed.
    fn is_long(&self) -> bool {
        self.seed % 16 == 6
    }

    /// What a process of a node speaks, the so many-th that is started. In one seed of eight half of them are of another
    /// version: nodes of both share the store, and change from the one to the other and back.
    fn protocol(&self, start: u64) -> u32 {
        let is_other = self.seed % 8 == 5 && StdRng::seed_from_u64(self.seed ^ start).random();
        PROTOCOL + u32::from(is_other)
    }

    /// One in so many writes is of a fragment of its own; nothing less is kept on a disk.
    fn seldom_many(&self) -> u32 {
        if self.disks.is_some() { 6 } else { 30 }
    }

    /// How long versions are retained.
    fn keep_versions(&self) -> Duration {
        Duration::from_secs(if self.seed.is_multiple_of(2) { 8 } else { 600 })
    }

    /// By how much the clock of a node is wrong, in one seed of three: two differ by less than what a vacuum leaves to
    /// reads that are under way, which is a minute and no more than the time for which versions are retained.
    fn skew(&self, node: usize) -> Option<Skew> {
        let most = self.keep_versions().min(Duration::from_secs(60)) / 2 - Duration::from_secs(1);
        (self.seed / 2 % 3 == 1).then(|| Skew { seed: self.seed.rotate_left(20) ^ node as u64, most })
    }

    fn note(&self, what: &str) {
        self.trace.add(turmoil::sim_elapsed().unwrap_or_default(), what);
    }

    fn config(&self, node: usize) -> Config {
        let name = |node: usize| format!("node{node}:7701");
        let (advertise, peers) = match self.by_name {
            true => (self.address(node).to_string(), vec!["dns:cluster:7701".to_owned()]),
            false => (name(node), (0..self.nodes).map(name).collect()),
        };
        Config {
            store: STORE.into(),
            cache: self.disks.as_ref().map(|disks| disks.of(node)),
            // The least, so that some files go for others.
            cache_size: 1 << 20,
            threads: 1,
            memory: Memory::Bytes(256 << 20),
            keep_versions: self.keep_versions(),
            advertise: Some(advertise),
            peers,
            shutdown_grace: Duration::from_millis(if self.seed % 7 < 3 { 100 } else { 5000 }),
            // Its addresses are none of this machine's.
            insecure: true,
            ..Config::default()
        }
    }

    fn address(&self, node: usize) -> SocketAddr {
        (turmoil::lookup(format!("node{node}")), 7701).into()
    }

    /// A process of a node, and the next one where it cannot start.
    async fn serve(self, node: usize) -> turmoil::Result {
        loop {
            let start = {
                let mut starts = self.starts.lock().unwrap();
                *starts += 1;
                *starts
            };
            let seed = StdRng::seed_from_u64(self.seed ^ (start << 32)).random();
            let (skew, protocol) = (self.skew(node), self.protocol(start));
            let environment: Arc<dyn Environment> =
                Arc::new(Node::new(node, seed, skew, protocol, &self.objects, &self.trace, &self.names));
            let doors = Doors {
                clients: environment.listen(any(7700)).await?,
                peers: Some(environment.listen(any(7701)).await?),
                metrics: None,
                postgres: None,
            };
            let own = self.address(node);
            self.names.lock().unwrap().push(own);
            let mut leave = self.leave[node].subscribe();
            let states = Arc::clone(&self.states);
            let started = move |state: &Arc<State>| states.lock().unwrap()[node] = Arc::downgrade(state);
            let left = async move {
                let _ = leave.changed().await;
            };
            let ended = run_in(environment, doors, self.config(node), started, left).await;
            self.names.lock().unwrap().retain(|address| *address != own);
            match ended {
                Ok(()) => return Ok(()),
                Err(error) => self.note(&format!("node {node} does not start: {error}")),
            }
            sleep(Duration::from_millis(500)).await;
        }
    }

    /// What is asked, and what is done to the nodes meanwhile.
    async fn drive(self) -> Outcome {
        self.ready(HEALED).await?;
        self.note("the table is there");
        let end = Instant::now() + if self.is_long() { LONG_FAULTS } else { FAULTS };
        let clients = (0..CLIENTS).map(|client| self.ask(client, end));
        let (asked, ()) = tokio::join!(join_all(clients), self.disturb(end));
        asked.into_iter().collect::<Outcome>()?;
        self.heal();
        self.note("healed");
        self.ready(HEALED).await?;
        self.agree().await?;
        self.is_quiet.set(true);
        let end = Instant::now() + QUIET;
        let clients = (CLIENTS..2 * CLIENTS).map(|client| self.ask(client, end));
        join_all(clients).await.into_iter().collect::<Outcome>()?;
        self.answers().await
    }

    /// That an error is one of those that there may be now: where all is well only that another write was faster.
    fn excused(&self, what: &str, error: &tonic::Status, besides: Option<ErrorReason>) -> Outcome {
        let conflict = Some(ErrorReason::WriteConflict);
        if !self.is_quiet.get() || [besides, conflict].contains(&client::reason(error)) {
            return excused(what, error, besides);
        }
        Err(format!("{what} where all is well: {error:?}"))
    }

    /// Waits until all nodes answer, with all that was acknowledged.
    async fn ready(&self, within: Duration) -> Outcome {
        let late = Instant::now() + within;
        for node in 0..self.nodes {
            let client = Client::new(node);
            loop {
                let answered = match client.create().await {
                    Ok(()) => self.read(&client, None).await?,
                    Err(error) => self.excused("create", &error, None).map(|()| false)?,
                };
                if answered {
                    break;
                }
                if Instant::now() > late {
                    return Err(format!("node {node} does not answer {within:?} after the last fault"));
                }
                sleep(Duration::from_millis(200)).await;
            }
        }
        Ok(())
    }

    /// Reads at a node; whether that has answered.
    async fn read(&self, client: &Client, version: Option<u64>) -> Result<bool, String> {
        let known = self.known(client);
        let answer = client.rows(version).await;
        self.note(&match &answer {
            Ok((at, [rows, _])) => format!("{} rows at {at} of {version:?}", rows.len()),
            Err(error) => format!("no rows of {version:?}: {:?} {}", error.code(), error.message()),
        });
        match answer {
            Ok((at, [rows, by])) => {
                self.fresh(client, known, at, version)?;
                self.model.borrow_mut().answered(at, rows.into_iter().zip(by))?;
                Ok(true)
            }
            Err(error) => {
                self.excused("rows", &error, version.map(|_| ErrorReason::VersionGone))?;
                Ok(false)
            }
        }
    }

    async fn count(&self, client: &Client) -> Outcome {
        let known = self.known(client);
        let answer = client.count().await;
        self.note(&match &answer {
            Ok((at, of)) => format!("{of:?} at {at}"),
            Err(error) => format!("no count: {:?} {}", error.code(), error.message()),
        });
        match answer {
            Ok((at, of)) => {
                self.fresh(client, known, at, None)?;
                self.model.borrow_mut().counted(at, of)
            }
            Err(error) => self.excused("count", &error, None),
        }
    }

    /// What is asked for now has what was acknowledged before, and what its node has answered with: reads at a node never go back.
    fn known(&self, client: &Client) -> Known {
        Known { acknowledged: self.model.borrow().acknowledged, seen: self.seen.borrow()[client.node()] }
    }

    /// That an answer is as new as that.
    fn fresh(&self, client: &Client, known: Known, at: u64, version: Option<u64>) -> Outcome {
        let Known { acknowledged, seen } = known;
        match version {
            Some(version) if version != at => return Err(format!("version {at} instead of {version}")),
            Some(_) => return Ok(()),
            None => {}
        }
        if at < acknowledged {
            return Err(format!("version {at} is stale: {acknowledged} was acknowledged"));
        }
        if at < seen {
            return Err(format!("version {at} goes back: this node has answered with {seen}"));
        }
        let newest = &mut self.seen.borrow_mut()[client.node()];
        *newest = at.max(*newest);
        Ok(())
    }

    /// One client.
    async fn ask(&self, client: usize, end: Instant) -> Outcome {
        let mut chance = StdRng::seed_from_u64(self.seed.wrapping_mul(31) + client as u64);
        let clients: Vec<Client> = (0..self.nodes).map(Client::new).collect();
        while Instant::now() < end {
            sleep(Duration::from_millis(chance.random_range(1..150))).await;
            let at = chance.random_range(0..self.nodes);
            match chance.random_range(0..20) {
                0..6 => {
                    let rows = if chance.random_range(0..self.seldom_many()) == 0 {
                        5000
                    } else {
                        chance.random_range(1..40)
                    };
                    let change = self.model.borrow_mut().begin_append(rows);
                    self.change(change, &clients, &mut chance).await?;
                }
                kind @ 6..10 => {
                    let kind = match kind {
                        6 | 7 => Kind::Replace,
                        _ if chance.random_range(0..20) == 0 => Kind::ReplaceAll,
                        _ => Kind::Delete,
                    };
                    let all = self.model.borrow().rows();
                    // Half of them are about the newest rows, which others are about, too.
                    let from = if chance.random() { 0 } else { all.saturating_sub(60).max(0) };
                    let first = chance.random_range(from..=all);
                    let rows = first..first + chance.random_range(1..60);
                    let change = self.begin(kind, rows);
                    self.change(change, &clients, &mut chance).await?;
                }
                10..13 => self.count(&clients[at]).await?,
                13..19 => drop(self.read(&clients[at], None).await?),
                _ => {
                    let known: Vec<u64> = self.model.borrow().versions().collect();
                    let old = known.get(chance.random_range(0..known.len().max(1))).copied();
                    self.read(&clients[at], old).await?;
                }
            }
        }
        Ok(())
    }

    fn begin(&self, kind: Kind, rows: Range<i64>) -> usize {
        let mut model = self.model.borrow_mut();
        let rows = if kind == Kind::Delete { rows } else { model.replaceable(rows) };
        model.begin(kind, rows)
    }

    /// Makes a change. Whoever has no answer asks again, and sometimes whoever has one; not for a deletion, which would
    /// be another one.
    async fn change(&self, change: usize, clients: &[Client], chance: &mut StdRng) -> Outcome {
        let (kind, rows) = {
            let change = &self.model.borrow().changes[change];
            (change.kind, change.rows.clone())
        };
        for _ in 0..6 {
            let node = chance.random_range(0..self.nodes);
            let done = clients[node].change(change, kind, rows.clone()).await;
            self.note(&format!("change {change} {kind:?} {rows:?} at node {node}: {:?}", brief(&done)));
            match done {
                Ok(version) => {
                    self.model.borrow_mut().done(change, version)?;
                    if kind == Kind::Delete || chance.random_range(0..10) > 0 {
                        break;
                    }
                }
                Err(error) => {
                    self.excused("change", &error, None)?;
                    if kind == Kind::Delete || chance.random_range(0..5) == 0 {
                        break;
                    }
                    sleep(Duration::from_millis(chance.random_range(1..500))).await;
                }
            }
        }
        Ok(())
    }

    /// Faults, until there are to be no more.
    async fn disturb(&self, end: Instant) {
        let mut chance = StdRng::seed_from_u64(self.seed.wrapping_mul(77) + 1);
        while Instant::now() < end {
            sleep(Duration::from_millis(chance.random_range(100..2500))).await;
            let node = chance.random_range(0..self.nodes);
            let other = (node + chance.random_range(1..self.nodes)) % self.nodes;
            let (a, b) = (format!("node{node}"), format!("node{other}"));
            let is_up = self.up.borrow().contains(&node);
            let mut fault = chance.random_range(0..12);
            if self.is_long() && is_up && fault < 3 && chance.random_range(0..5) > 0 {
                fault = 10;
            }
            self.note(&format!("fault {fault} at {a} and {b}"));
            if self.disks.is_some() && (fault < 2 || chance.random_range(0..4) == 0) {
                self.spoil(node, &mut chance);
            }
            match fault {
                0 | 1 if is_up && self.up.borrow().len() > 1 => self.command(Command::Crash(node)),
                2 if is_up && self.up.borrow().len() > 1 => {
                    self.up.borrow_mut().remove(&node);
                    self.leave[node].send_replace(());
                }
                0..5 if !is_up => self.command(Command::Start(node)),
                5 | 6 => turmoil::partition(a, b),
                7 => turmoil::hold(a, b),
                8 => self.objects.fail(chance.random_range(0..150)),
                9 => self.objects.fail(0),
                _ => {
                    turmoil::repair(a.as_str(), b.as_str());
                    turmoil::release(a, b);
                }
            }
        }
    }

    /// What the disk of a node becomes, while the node is up or not.
    fn spoil(&self, node: usize, chance: &mut StdRng) {
        if let Some(disks) = &self.disks {
            let (all, spoilt) = disks.spoil(node, chance);
            self.note(&format!("{spoilt} of {all} files of node {node} are spoilt"));
        }
    }

    fn command(&self, command: Command) {
        match command {
            Command::Crash(node) => self.up.borrow_mut().remove(&node),
            Command::Start(node) => self.up.borrow_mut().insert(node),
        };
        self.commands.borrow_mut().push(command);
    }

    fn heal(&self) {
        self.objects.fail(0);
        for a in 0..self.nodes {
            for b in 0..a {
                let (a, b) = (format!("node{a}"), format!("node{b}"));
                turmoil::repair(a.as_str(), b.as_str());
                turmoil::release(a, b);
            }
        }
        for node in 0..self.nodes {
            if !self.up.borrow().contains(&node) {
                self.command(Command::Start(node));
            }
        }
    }

    /// That all nodes know all, agree on who holds what, and answer the same for each version that was answered for.
    async fn agree(&self) -> Outcome {
        let agreed = timeout(HEALED, async {
            while !self.is_agreed() {
                sleep(Duration::from_millis(500)).await;
            }
        });
        agreed.await.map_err(|_| "the nodes do not agree on who they are".to_owned())?;
        self.note("agreed");
        self.answers().await
    }

    /// That all nodes answer the same, for the newest version and for those that were answered for in part.
    async fn answers(&self) -> Outcome {
        let clients: Vec<Client> = (0..self.nodes).map(Client::new).collect();
        for client in &clients {
            if !self.read(client, None).await? {
                return Err("a healed node does not answer".to_owned());
            }
        }
        let unchecked = self.model.borrow().unchecked();
        for (i, version) in unchecked.into_iter().enumerate() {
            self.read(&clients[i % self.nodes], Some(version)).await?;
        }
        Ok(())
    }

    /// Whether all nodes are members at all nodes, and each fragment is held by as many as shall hold it.
    fn is_agreed(&self) -> bool {
        let states: Vec<_> = self.states.lock().unwrap().iter().filter_map(Weak::upgrade).collect();
        let views: Vec<_> =
            states.iter().filter_map(|state| Some(state.cluster.as_ref()?.members().view())).collect();
        let names = |i: usize| views[i].nodes().iter().map(|node| Arc::clone(&node.name)).collect::<Vec<_>>();
        views.len() == self.nodes
            && (0..views.len()).all(|i| names(i) == names(0) && names(i).len() == self.nodes)
            && (0..200).all(|fragment| {
                views.iter().filter(|view| view.holds(7, fragment)).count()
                    == views[0].replicas().min(self.nodes)
            })
    }

    fn obey(&self, sim: &mut Sim<'_>) {
        for command in self.commands.take() {
            match command {
                Command::Crash(node) => {
                    sim.crash(format!("node{node}"));
                    let address = SocketAddr::new(sim.lookup(format!("node{node}")), 7701);
                    self.names.lock().unwrap().retain(|known| *known != address);
                }
                Command::Start(node) => sim.bounce(format!("node{node}")),
            }
        }
    }
}

fn brief(answer: &Result<u64, tonic::Status>) -> Result<u64, (tonic::Code, &str)> {
    answer.as_ref().copied().map_err(|error| (error.code(), error.message()))
}

/// The longest that a message takes.
fn latency(seed: u64) -> Duration {
    Duration::from_millis(match seed {
        _ if seed.is_multiple_of(5) => 60,
        // Longer than clocks may differ, and than a lease and what it takes to renew it leave.
        _ if seed % 9 == 4 => 800,
        _ => 10,
    })
}

/// Runs a seed; the hash of what happened.
fn run(seed: u64) -> Result<u64, String> {
    let mut builder = turmoil::Builder::new();
    builder
        .rng_seed(seed)
        .tick_duration(Duration::from_millis(2))
        .simulation_duration(Duration::from_secs(600))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(latency(seed))
        .tcp_capacity(1 << 16);
    let mut sim = builder.build();
    let world = World::new(seed);
    for node in 0..world.nodes {
        let world = world.clone();
        sim.host(format!("node{node}"), move || world.clone().serve(node));
    }
    let driver = world.clone();
    sim.client("clients", async move { Ok(driver.drive().await?) });
    loop {
        let is_over = sim.step().map_err(|error| error.to_string())?;
        if is_over {
            return Ok(world.trace.hash());
        }
        world.obey(&mut sim);
    }
}

/// 0: a table that a store in an outage did not give at a start was said to be damaged. 5: nodes of two versions.
const SEEDS: [u64; 4] = [0, 1, 3, 5];

#[test]
fn seeds_find_nothing() {
    for seed in SEEDS {
        if let Err(error) = run(seed) {
            panic!("seed {seed}: {error}");
        }
    }
}

/// For scripts/check-simulation, and to look at one. In a process of its own a seed says all, which the script holds to:
/// beside other tests, which move what is counted for the whole process, the connections of a node that crashes end in
/// another order.
#[test]
#[ignore = "one seed, by BASALT_SEED"]
fn one() {
    let seed = std::env::var("BASALT_SEED").map_or(0, |text| text.parse().unwrap());
    match run(seed) {
        Ok(hash) => println!("seed {seed}: {hash:016x}"),
        Err(error) => panic!("seed {seed}: {error}"),
    }
}
