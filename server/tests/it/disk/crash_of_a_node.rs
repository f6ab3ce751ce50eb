//! One of three nodes is killed at a call to the store that they share, or all of them are with the machine: the others
//! go on, every node answers as what was acknowledged, and what was under way is there once.
//!
//! `BASALT_CRASHES`, `BASALT_CRASH`, `BASALT_FIRST_CRASH` and `BASALT` are as in `crash.rs`.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use basalt_client::Client;

use super::{
    Disk, Loss,
    crash::{Choice, Crash, Point, asked, crashes, points},
    killed::{Running, start_on},
    life::{Model, Step, later, place, run, steps},
};

/// Crashes of a test run.
const CRASHES: u64 = 6;
const NODES: usize = 3;
/// How long it may take until those that are left go on.
const PATIENCE: Duration = Duration::from_secs(60);

/// Three nodes, of which some may have ended.
struct Nodes {
    disk: Disk,
    ports: Vec<[u16; 2]>,
    nodes: Vec<Option<(Running, Client)>>,
}

impl Nodes {
    fn new() -> Self {
        let disk = Disk::new();
        let listeners: Vec<_> = (0..NODES * 2).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> = listeners.iter().map(|it| it.local_addr().unwrap().port()).collect();
        let ports = ports.chunks(2).map(|pair| [pair[0], pair[1]]).collect();
        Self { disk, ports, nodes: (0..NODES).map(|_| None).collect() }
    }

    /// Starts all of them. One may end where it is to end.
    async fn start(&mut self) {
        let peers: Vec<String> = self.ports.iter().map(|[_, peer]| format!("127.0.0.1:{peer}")).collect();
        let peers = peers.join(",");
        for (node, [own, peer]) in self.nodes.iter_mut().zip(&self.ports) {
            let (listen, own_peer) = (format!("127.0.0.1:{own}"), format!("127.0.0.1:{peer}"));
            // The files of a cache are a node's own.
            let [store, cache] =
                ["store".to_owned(), format!("cache/{own}")].map(|name| place(&self.disk, &name));
            let more =
                ["--cache", &cache, "--keep-versions", "1m", "--peer-listen", &own_peer, "--peers", &peers];
            *node = start_on(&listen, &store, Some(&self.disk), &more).await;
        }
    }

    /// Those that run, from one on.
    fn from(&self, first: usize) -> impl Iterator<Item = &Client> {
        (0..NODES).filter_map(move |i| self.nodes[(first + i) % NODES].as_ref()).map(|(_, client)| client)
    }

    /// A step is done by one of those that run, whatever becomes of the others.
    async fn done(&self, model: &Model, number: usize, step: &Step) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let mut error = String::new();
            for client in self.from(number) {
                match run(client, &self.disk, model, number, step).await {
                    Ok(()) => return Ok(()),
                    Err(wrong) => error = wrong.to_string(),
                }
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("{step:?} is not done: {error}"));
            }
            // A node is given up by those that wait for it after some time.
            for client in self.from(number) {
                let _ = later(client, &self.disk, 1).await;
            }
        }
    }

    /// What a node answers, if it does, is what there must be.
    async fn read(&self, first: usize, model: &Model, every: bool) -> Result<(), String> {
        let begun = Instant::now();
        for client in self.from(first).take(if every { NODES } else { 1 }) {
            loop {
                match Model::found(client).await {
                    Ok(found) if found == *model => break,
                    Ok(found) => return Err(format!("there is {found:?}, acknowledged was {model:?}")),
                    Err(_) if !every => break,
                    Err(error) if begun.elapsed() > PATIENCE => return Err(error),
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        }
        Ok(())
    }
}

async fn crash(points: Vec<Point>, number: u64) -> Result<Crash, String> {
    let mut choice = Choice::of(&points, number, 4);
    let told = choice.tells();

    let mut nodes = Nodes::new();
    choice.order(&nodes.disk);
    let mut crash = Crash::default();
    nodes.start().await;
    let (mut model, mut pending) = (Model::default(), None);
    for (number, step) in steps().iter().enumerate() {
        let Some(client) = nodes.from(number).next() else { break };
        if run(client, &nodes.disk, &model, number, step).await.is_err() {
            crash.ended = true;
            // The machine dies with it.
            if choice.loss > 1 {
                pending = Some((number, step.clone()));
                break;
            }
            nodes.done(&model, number, step).await.map_err(&told)?;
        }
        model = model.after(step);
        nodes.read(number + 1, &model, false).await.map_err(|e| told(format!("after {step:?} {e}")))?;
    }
    nodes.disk.end_never();
    if choice.loss < 2 {
        nodes.nodes.retain_mut(|node| node.as_mut().is_none_or(|(server, _)| server.runs()));
        nodes.nodes.resize_with(NODES, || None);
        nodes.read(0, &model, true).await.map_err(|e| told(format!("before they start again {e}")))?;
    }
    nodes.nodes.iter_mut().for_each(|node| *node = None);
    crash.lost += nodes.disk.lose(match choice.loss {
        0 | 1 => Loss::Nothing,
        2 => Loss::Most,
        _ => Loss::Some(&mut choice.chance),
    });

    nodes.start().await;
    if let Some((number, step)) = pending {
        let after = model.after(&step);
        for client in nodes.from(number) {
            match Model::found(client).await {
                Ok(found) if found != model && found != after => {
                    return Err(told(format!("at {step:?} there is {found:?}, acknowledged was {model:?}")));
                }
                _ => {}
            }
        }
        nodes.done(&model, number, &step).await.map_err(&told)?;
        model = after;
    }
    nodes.read(1, &model, true).await.map_err(|e| told(format!("in the end {e}")))?;
    Ok(crash)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_crash_of_a_node_at_any_call_loses_doubles_or_halves_anything() {
    let points = points().await;
    match asked("BASALT_CRASH") {
        Some(number) => drop(crash(points, number).await.unwrap()),
        None => crashes(&points, CRASHES, crash).await,
    }
}
