//! SIGHUP: keys and certificates are read again at once, and whoever is being answered notices nothing.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use basalt_client::{Client, ClientOptions, Credentials, RetryPolicy, WriteOptions, count};
use basalt_server::{Allowance, Authority, Issued, Role};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

/// A server with TLS and keys, and its log.
struct Server {
    process: Child,
    address: String,
    log: Arc<Mutex<String>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
        command.args(["serve", "--store", "memory:", "--listen", "127.0.0.1:0", "--log-format", "json"]);
        command.args(["--threads", "2", "--secrets"]).arg(folder);
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = loop {
            let line: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            if line["message"] == "listening" {
                break format!("https://{}", line["address"].as_str().unwrap());
            }
        };
        let log = Arc::new(Mutex::new(String::new()));
        let told = Arc::clone(&log);
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| told.lock().unwrap().push_str(&line));
        });
        Self { process, address, log }
    }

    /// Tells it, and waits until it has read so many kinds of files again, since it began.
    async fn hangup(&self, read: usize) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
        let done = async {
            while self.log.lock().unwrap().matches("read again").count() < read {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(30), done).await.expect("nothing is read again");
    }

    async fn connect(&self, credentials: Credentials) -> Client {
        let options = ClientOptions::new().retry(RetryPolicy::never());
        Client::connect_as(&self.address, options, &credentials).await.unwrap()
    }
}

fn issued(name: &str, role: Role) -> Issued {
    Issued::new(name, role, &["*".to_owned()], Allowance::default()).unwrap()
}

fn rows(values: std::ops::Range<i64>) -> RecordBatch {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    RecordBatch::try_from_iter([("n", values)]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_certificates_are_read_again_and_calls_go_on() {
    let folder = TempDir::new().unwrap();
    let hosts = ["127.0.0.1".to_owned()];
    Authority::open(folder.path()).unwrap().issue("server", &hosts).unwrap();
    let (admin, alice, bobby) =
        (issued("admin", Role::Admin), issued("alice", Role::Reader), issued("bobby", Role::Reader));
    let keys = folder.path().join("keys.toml");
    let of = |other: &Issued| format!("{}{}", admin.entry, other.entry);
    fs::write(&keys, of(&alice)).unwrap();
    let server = Server::start(folder.path());
    let trusted = || Credentials::new().ca_file(folder.path().join("ca.pem")).unwrap();
    let by = |issued: &Issued| trusted().key(&issued.secret).unwrap();
    let client = server.connect(by(&admin)).await;
    let (alices, bobbys) = (server.connect(by(&alice)).await, server.connect(by(&bobby)).await);
    client.create_table("t", &rows(0..1).schema()).await.unwrap();
    client.write_all("t", &[rows(0..3_000_000)]).await.unwrap();
    alices.list_tables().await.unwrap();
    bobbys.list_tables().await.unwrap_err();

    // Calls that are under way: an answer larger than what is on its way while nobody reads, and a write.
    let mut unread = client.query("t").stream().await.unwrap();
    let mut writer = client.write("t", WriteOptions::new()).await.unwrap();
    writer.send(&rows(0..10)).await.unwrap();

    // Nobody could tell the file from the one before by looking at its length and its time: it is the signal that counts.
    let at = fs::metadata(&keys).unwrap().modified().unwrap();
    let (before, after) = (of(&alice), of(&bobby));
    assert_eq!(before.len(), after.len());
    fs::write(&keys, after).unwrap();
    File::options().write(true).open(&keys).unwrap().set_modified(at).unwrap();
    let first = fs::read(folder.path().join("server.pem")).unwrap();
    Authority::open(folder.path()).unwrap().issue("server", &hosts).unwrap();
    assert_ne!(fs::read(folder.path().join("server.pem")).unwrap(), first);
    server.hangup(2).await;
    bobbys.list_tables().await.unwrap();
    alices.list_tables().await.unwrap_err();
    let shown = shown(&server.address, &folder.path().join("ca.pem")).await;
    let chain = fs::read_to_string(folder.path().join("server.pem")).unwrap();
    assert_eq!(shown, pem(&chain), "the certificate is the one before");

    // What was under way has not noticed; it goes on by connections that were made before.
    let mut read = 0;
    while let Some(batch) = unread.next().await.unwrap() {
        read += batch.num_rows();
    }
    assert_eq!(read, 3_000_000);
    writer.send(&rows(10..20)).await.unwrap();
    writer.commit().await.unwrap();
    let answer = client.query("t").select([count()]).collect().await.unwrap();
    assert_eq!(answer.rows, 1);

    // What is wrong changes nothing.
    let told = server.log.lock().unwrap().matches("read again").count();
    fs::write(&keys, "[[key]]\nname = 7").unwrap();
    server.hangup(told + 2).await;
    assert!(server.log.lock().unwrap().contains("cannot be read again"));
    bobbys.list_tables().await.unwrap();
}

/// The first certificate of a file.
fn pem(text: &str) -> Vec<u8> {
    use rustls::pki_types::{CertificateDer, pem::PemObject as _};
    CertificateDer::from_pem_slice(text.as_bytes()).unwrap().to_vec()
}

/// The certificate that a server shows.
async fn shown(address: &str, ca: &Path) -> Vec<u8> {
    let stream = tokio::net::TcpStream::connect(address.trim_start_matches("https://")).await.unwrap();
    crate::secured::tls(ca, stream).await.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}
