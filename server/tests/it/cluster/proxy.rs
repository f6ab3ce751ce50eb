//! The way to a node, which a test can make slow or cut.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinSet,
};

/// What becomes of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Open,
    /// Each piece waits so long.
    Slow(Duration),
    /// They are taken and never arrive.
    Hole,
    /// Connections end at once.
    Closed,
}

/// A listener that hands everything on to an address that may change.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    way: watch::Sender<Way>,
    target: Arc<watch::Sender<SocketAddr>>,
    _task: JoinSet<()>,
}

impl Proxy {
    pub(crate) async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (way, target) = (watch::Sender::new(Way::Open), Arc::new(watch::Sender::new(target)));
        let (ways, targets) = (way.subscribe(), Arc::clone(&target));
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (ways, target) = (ways.clone(), *targets.borrow());
                connections.spawn(connection(stream, target, ways));
            }
        });
        Self { address, way, target, _task: task }
    }

    /// From now on; connections that are open feel it too.
    pub(crate) fn set(&self, way: Way) {
        self.way.send_replace(way);
    }

    /// Where new connections go.
    pub(crate) fn point_to(&self, target: SocketAddr) {
        self.target.send_replace(target);
    }
}

async fn connection(stream: TcpStream, target: SocketAddr, mut ways: watch::Receiver<Way>) {
    if *ways.borrow() == Way::Closed {
        return;
    }
    let Ok(onward) = TcpStream::connect(target).await else { return };
    let ((from, back), (answers, to)) = (stream.into_split(), onward.into_split());
    tokio::select! {
        () = copy(from, to, ways.clone()) => {}
        () = copy(answers, back, ways.clone()) => {}
        closed = ways.wait_for(|way| *way == Way::Closed) => drop(closed),
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut ways: watch::Receiver<Way>) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let Ok(n @ 1..) = from.read(&mut buffer).await else { return };
        let way = *ways.borrow_and_update();
        match way {
            Way::Open => {}
            Way::Slow(time) => tokio::time::sleep(time).await,
            // What fell into it is lost, and the stream with it.
            Way::Hole => std::future::pending().await,
            Way::Closed => return,
        }
        if to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}
