//! A client of PostgreSQL's protocol that writes and reads its messages byte by byte.

use std::{collections::BTreeMap, time::Duration};

use basalt_server::{Config, Listeners};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};

use crate::nodes::{command, ready};

/// A server that runs until it is stopped.
pub(crate) struct Server {
    pub(crate) grpc: String,
    pub(crate) address: String,
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) running: JoinHandle<()>,
}

pub(crate) async fn serve(change: impl FnOnce(&mut Config)) -> Server {
    let mut config = Config { threads: 2, store: "memory:".to_owned(), ..Config::default() };
    change(&mut config);
    let listen = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (clients, postgres) = (listen().await, listen().await);
    let grpc = format!("http://{}", clients.local_addr().unwrap());
    let address = postgres.local_addr().unwrap().to_string();
    let (stop, stopped) = oneshot::channel::<()>();
    let listeners = Listeners { postgres: Some(postgres), ..clients.into() };
    let running = tokio::spawn(async move {
        let stopped = async { drop(stopped.await) };
        basalt_server::run(listeners, config, stopped).await.unwrap();
    });
    ready(&grpc).await;
    Server { grpc, address, stop, running }
}

/// With a table `t` of a thousand rows: `key`, and `text`, of which every tenth is NULL.
pub(crate) async fn filled(change: impl FnOnce(&mut Config)) -> Server {
    let server = serve(change).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    let row =
        |key: u32| if key.is_multiple_of(10) { format!("{key},\n") } else { format!("{key},text {key}\n") };
    std::fs::write(&path, format!("key,text\n{}", (0..1000).map(row).collect::<String>())).unwrap();
    command(&server.grpc, &["load", "t", path.to_str().unwrap()]).await.unwrap();
    server
}

/// A message of the server.
pub(crate) type Message = (u8, Vec<u8>);

/// A client that knows the form of messages alone.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    /// By which its statement is cancelled.
    pub(crate) key: Vec<u8>,
    pub(crate) settings: BTreeMap<String, String>,
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

pub(crate) fn framed(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[tag][..], &length, body].concat()
}

pub(crate) fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    let parameters: Vec<u8> =
        parameters.iter().flat_map(|(name, value)| [text(name), text(value)].concat()).collect();
    let body = [&196_608_u32.to_be_bytes()[..], &parameters, b"\0"].concat();
    [&u32::try_from(body.len() + 4).unwrap().to_be_bytes()[..], &body].concat()
}

pub(crate) async fn message(stream: &mut TcpStream) -> Option<Message> {
    let mut head = [0; 5];
    stream.read_exact(&mut head).await.ok()?;
    let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((head[0], body))
}

/// The fields of an error.
pub(crate) fn fields(body: &[u8]) -> BTreeMap<char, String> {
    let fields = body.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    fields.map(|field| (char::from(field[0]), String::from_utf8(field[1..].to_vec()).unwrap())).collect()
}

/// What a client sees of an answer: types of messages, with what is of note in them.
pub(crate) fn shown((tag, body): &Message) -> String {
    match tag {
        b'C' => format!("C {}", String::from_utf8_lossy(&body[..body.len() - 1])),
        b'E' => format!("E {}", fields(body)[&'C']),
        b'N' => format!("N {}", fields(body)[&'C']),
        b'Z' => format!("Z {}", char::from(body[0])),
        b'D' => format!(
            "D {}",
            values(body)
                .iter()
                .map(|value| match value {
                    Some(value) => String::from_utf8_lossy(value).into_owned(),
                    None => "NULL".to_owned(),
                })
                .collect::<Vec<_>>()
                .join("|")
        ),
        b't' => format!(
            "t {:?}",
            body[2..].chunks(4).map(|oid| u32::from_be_bytes(oid.try_into().unwrap())).collect::<Vec<_>>()
        ),
        other => char::from(*other).to_string(),
    }
}

pub(crate) fn values(body: &[u8]) -> Vec<Option<Vec<u8>>> {
    let (mut rest, mut values) = (&body[2..], Vec::new());
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = i32::from_be_bytes(*length);
        let (value, after) = after.split_at(usize::try_from(length).unwrap_or(0));
        values.push((length >= 0).then(|| value.to_vec()));
        rest = after;
    }
    values
}

/// Names and numbers of the types of columns.
pub(crate) fn columns(body: &[u8]) -> Vec<(String, u32)> {
    let (mut rest, mut columns) = (&body[2..], Vec::new());
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let name = String::from_utf8(rest[..end].to_vec()).unwrap();
        let fixed = &rest[end + 1..];
        columns.push((name, u32::from_be_bytes(fixed[6..10].try_into().unwrap())));
        rest = &fixed[18..];
    }
    columns
}

impl Client {
    pub(crate) async fn connect(server: &Server) -> Self {
        Self::try_connect(server, &[("user", "me")]).await.unwrap_or_else(|error| panic!("{error:?}"))
    }

    pub(crate) async fn try_connect(
        server: &Server,
        parameters: &[(&str, &str)],
    ) -> Result<Self, BTreeMap<char, String>> {
        let mut stream = TcpStream::connect(&server.address).await.unwrap();
        stream.write_all(&startup(parameters)).await.unwrap();
        let (mut key, mut settings) = (Vec::new(), BTreeMap::new());
        loop {
            let (tag, body) = message(&mut stream).await.unwrap();
            match tag {
                b'R' => assert_eq!(body, [0; 4]),
                b'K' => key = body,
                b'S' => {
                    let mut parts =
                        body.split(|byte| *byte == 0).map(|part| String::from_utf8(part.to_vec()).unwrap());
                    settings.insert(parts.next().unwrap(), parts.next().unwrap());
                }
                b'Z' => return Ok(Self { stream, key, settings }),
                b'E' => return Err(fields(&body)),
                other => panic!("{other}"),
            }
        }
    }

    pub(crate) async fn send(&mut self, tag: u8, body: &[u8]) {
        self.stream.write_all(&framed(tag, body)).await.unwrap();
    }

    /// The messages until the server is ready.
    pub(crate) async fn answer(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            let next = timeout(Duration::from_secs(60), message(&mut self.stream)).await.unwrap();
            messages.push(next.unwrap());
            if messages.last().unwrap().0 == b'Z' {
                return messages;
            }
        }
    }

    pub(crate) async fn shown(&mut self) -> Vec<String> {
        self.answer().await.iter().map(shown).collect()
    }

    pub(crate) async fn query(&mut self, sql: &str) -> Vec<String> {
        self.send(b'Q', &text(sql)).await;
        self.shown().await
    }

    pub(crate) async fn parse(&mut self, name: &str, sql: &str, types: &[u32]) {
        let oids: Vec<u8> = types.iter().flat_map(|oid| oid.to_be_bytes()).collect();
        let count = u16::try_from(types.len()).unwrap().to_be_bytes();
        self.send(b'P', &[text(name), text(sql), count.to_vec(), oids].concat()).await;
    }

    /// All parameters, and all results, in one format.
    pub(crate) async fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        format: u16,
        parameters: &[Option<&[u8]>],
    ) {
        let formats = [1_u16.to_be_bytes(), format.to_be_bytes()].concat();
        let count = u16::try_from(parameters.len()).unwrap().to_be_bytes().to_vec();
        let values = parameters.iter().flat_map(|value| match value {
            Some(value) => [&u32::try_from(value.len()).unwrap().to_be_bytes()[..], value].concat(),
            None => (-1_i32).to_be_bytes().to_vec(),
        });
        let body =
            [text(portal), text(statement), formats.clone(), count, values.collect(), formats].concat();
        self.send(b'B', &body).await;
    }

    pub(crate) async fn execute(&mut self, portal: &str, rows: u32) {
        self.send(b'E', &[text(portal), rows.to_be_bytes().to_vec()].concat()).await;
    }

    pub(crate) async fn cancel(&self, server: &Server, key: &[u8]) {
        let mut stream = TcpStream::connect(&server.address).await.unwrap();
        let body = [&80_877_102_u32.to_be_bytes()[..], key].concat();
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        stream.write_all(&[&length[..], &body].concat()).await.unwrap();
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0, "it is told nothing");
    }
}
