//! Several addresses, retries within the deadline, and what goes with every call.

use std::time::{Duration, Instant};

use basalt_client::{Client, ClientOptions, Credentials, Error, ErrorReason, Outgoing, RetryPolicy};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::{
    query::{Message, batch, header, trailer},
    server::{Script, Then, options, status},
    write::{Play, rows, script},
};

const MS: fn(u64) -> Duration = Duration::from_millis;

fn good() -> Vec<Message> {
    vec![header(), batch(&[1, 2]), trailer(2)]
}

fn of(queries: Vec<Message>) -> Script {
    Script { queries: vec![queries], ..Default::default() }
}

fn unavailable() -> Script {
    of(vec![Err(status(Code::Unavailable, "SHUTTING_DOWN"))])
}

/// An address where nothing listens.
async fn dead() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

async fn connect(addresses: &[String], options: ClientOptions) -> Client {
    Client::connect_any(addresses, options, &Credentials::new()).await.unwrap()
}

#[tokio::test]
async fn an_address_that_is_dead_is_passed_over() {
    let script = of(good());
    let (gone, alive) = (dead().await, script.clone().serve().await);
    let client = connect(&[gone.clone(), alive.clone()], options()).await;
    assert_eq!(client.address(), format!("http://{alive}"));
    assert_eq!(client.addresses().count(), 2);
    assert_eq!(client.query("t").collect().await.unwrap().rows, 2);

    // One that is left later is not asked again while the other answers.
    let leaving = unavailable();
    let client = connect(&[leaving.clone().serve().await, gone.clone(), alive.clone()], options()).await;
    for _ in 0..2 {
        assert_eq!(client.query("t").collect().await.unwrap().rows, 2);
    }
    assert_eq!((leaving.calls_of("query"), script.calls_of("query")), (1, 3));

    let error = Client::connect_any([&gone, &gone], options(), &Credentials::new()).await.unwrap_err();
    assert!(matches!(&error, Error::Connection { message, .. } if message.contains("; ")), "{error}");
    assert!(std::error::Error::source(&error).is_some());
    let none = Client::connect_any([""; 0], options(), &Credentials::new()).await;
    assert!(matches!(none, Err(Error::Address { .. })));
}

#[tokio::test]
async fn all_addresses_may_fail() {
    let scripts = [unavailable(), unavailable()];
    let addresses = [scripts[0].clone().serve().await, scripts[1].clone().serve().await];
    let error = connect(&addresses, options()).await.query("t").collect().await.unwrap_err();
    assert_eq!(error.reason(), ErrorReason::ShuttingDown);
    // Three tries in all.
    assert_eq!((scripts[0].calls_of("query"), scripts[1].calls_of("query")), (2, 1));
}

#[tokio::test]
async fn a_slow_server_is_left_for_the_next() {
    for then in [Then::Silence, Then::Stall] {
        // It answers nothing, or has accepted the query and sends no header.
        let slow = Script { queries: vec![vec![]], then, ..Default::default() };
        let fast = of(good());
        let addresses = [slow.clone().serve().await, fast.serve().await];
        let client = connect(&addresses, options().try_timeout(MS(50))).await;
        assert_eq!(client.query("t").collect().await.unwrap().rows, 2, "{then:?}");
        assert_eq!(slow.calls_of("query"), 1);

        // Without another address it is asked again, until the tries are spent.
        let client = connect(&addresses[..1], options().try_timeout(MS(50))).await;
        assert!(matches!(client.query("t").collect().await, Err(Error::Deadline)));
        assert_eq!(slow.calls_of("query"), 4);
    }
}

#[tokio::test]
async fn what_may_not_be_repeated_is_asked_once() {
    let scripts = [Script::default(), Script::default()];
    let addresses = [scripts[0].clone().serve().await, scripts[1].clone().serve().await];
    let client = connect(&addresses, options()).await;
    let schema = arrow_schema::Schema::empty();
    assert!(client.create_table("t", &schema).await.is_err());
    assert_eq!((scripts[0].calls_of("create_table"), scripts[1].calls_of("create_table")), (1, 0));
    // The next call goes elsewhere.
    assert_eq!(client.address(), format!("http://{}", addresses[1]));
}

#[tokio::test]
async fn a_write_goes_on_elsewhere_under_its_id() {
    let (losing, seen) = script(vec![Play::LoseAnswer]);
    let (keeping, then_seen) = script(vec![Play::Commit]);
    let client = connect(&[losing.serve().await, keeping.serve().await], options()).await;
    let committed = client.write_all("t", &[rows()]).await.unwrap();
    assert_eq!(committed.rows, 2000);
    // A server notes a write when its stream ends.
    for _ in 0..200 {
        if !then_seen.lock().unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(MS(10)).await;
    }
    let (first, second) = (seen.lock().unwrap(), then_seen.lock().unwrap());
    assert_eq!((first.len(), second.len()), (1, 1));
    assert!(!first[0].request_id.is_empty() && first[0].request_id == second[0].request_id);
}

#[tokio::test]
async fn a_wrong_key_is_wrong_everywhere() {
    let scripts = [(); 2].map(|()| Script { key: Some("right"), ..of(good()) });
    let addresses = [scripts[0].clone().serve().await, scripts[1].clone().serve().await];
    let wrong = Credentials::new().key("wrong").unwrap();
    let client = Client::connect_any(&addresses, options(), &wrong).await.unwrap();
    let error = client.query("t").collect().await.unwrap_err();
    assert_eq!(error.reason(), ErrorReason::Unauthenticated);
    assert_eq!((scripts[0].calls_of("query"), scripts[1].calls_of("query")), (1, 0));

    // A key that changes comes from an interceptor, in the place of the other.
    let client =
        client.with_interceptor(|call: &mut Outgoing<'_>| call.set_header("Authorization", "Bearer right"));
    assert_eq!(client.query("t").collect().await.unwrap().rows, 2);
}

#[tokio::test]
async fn interceptors_see_every_try() {
    let first = of(vec![Err(status(Code::Unavailable, "STARTING"))]);
    let second = of(good());
    let addresses = [first.clone().serve().await, second.clone().serve().await];
    let client = connect(&addresses, options()).await.with_interceptor(|call: &mut Outgoing<'_>| {
        let trace = format!("{} {}", call.attempt(), call.address());
        call.set_header("traceparent", "replaced")?;
        call.set_header("traceparent", &trace)?;
        assert_eq!(call.header("traceparent"), Some(trace.as_str()));
        Ok(())
    });
    client.query("t").collect().await.unwrap();
    for (i, script) in [first, second].iter().enumerate() {
        let headers = script.headers.lock().unwrap();
        let trace = headers[0].get("traceparent").unwrap().to_str().unwrap();
        assert_eq!(trace, format!("{} http://{}", i + 1, addresses[i]));
        assert_eq!(headers[0].get_all("traceparent").iter().count(), 1);
    }
}

#[tokio::test]
async fn an_interceptor_may_stop_a_call() {
    let script = of(good());
    let client = connect(&[script.clone().serve().await], options()).await;
    for (name, value) in [("grpc-timeout", "1S"), ("te", "x"), ("a b", "x"), ("", "x"), ("a", "line\nbreak")]
    {
        let client =
            client.clone().with_interceptor(move |call: &mut Outgoing<'_>| call.set_header(name, value));
        let error = client.query("t").collect().await.unwrap_err();
        assert!(matches!(&error, Error::Header { name: n, .. } if n == name), "{error}");
    }
    assert_eq!(script.calls_of("query"), 0);
}

#[tokio::test]
async fn retries_end_with_the_deadline() {
    let script = unavailable();
    let retry = RetryPolicy::new().tries(1000).first_delay(MS(100)).max_delay(MS(100));
    let options = ClientOptions::new().retry(retry).deadline(MS(1000));
    let client = connect(&[script.clone().serve().await], options).await;
    let started = Instant::now();
    let error = client.query("t").collect().await.unwrap_err();
    assert_eq!(error.reason(), ErrorReason::ShuttingDown);
    assert!(started.elapsed() < MS(10_000), "{:?}", started.elapsed());
    assert!((2..=11).contains(&script.calls_of("query")), "{}", script.calls_of("query"));
}

#[tokio::test]
async fn a_try_of_the_last_moments_does_not_hide_why() {
    // The first try fails; the second is left less time than was waited for it, and hears nothing.
    let script = Script { then: Then::Stall, ..of(vec![Err(status(Code::Unavailable, "SHUTTING_DOWN"))]) };
    let script = Script { queries: vec![script.queries[0].clone(), vec![]], ..script };
    let retry = RetryPolicy::new().first_delay(MS(300)).max_delay(MS(300));
    let options = ClientOptions::new().retry(retry).deadline(MS(500));
    let client = connect(&[script.clone().serve().await], options).await;
    let error = client.query("t").collect().await.unwrap_err();
    assert_eq!((error.reason(), script.calls_of("query")), (ErrorReason::ShuttingDown, 2));

    // One that had its time says that it was not enough.
    let again = Script { calls: Default::default(), ..script };
    let options = ClientOptions::new().retry(retry).deadline(MS(1500));
    let client = connect(&[again.clone().serve().await], options).await;
    assert!(matches!(client.query("t").collect().await, Err(Error::Deadline)));
    assert_eq!(again.calls_of("query"), 2);
}

#[tokio::test]
async fn a_server_that_names_a_time_is_given_it() {
    let busy = |delay| {
        let mut details = ErrorDetails::with_error_info("OVERLOADED", "basalt", []);
        details.set_retry_info(Some(delay));
        Status::with_error_details(Code::ResourceExhausted, "busy", details)
    };
    let script = Script { queries: vec![vec![Err(busy(MS(150)))], good()], ..Default::default() };
    let client = connect(&[script.clone().serve().await], options()).await;
    let started = Instant::now();
    assert_eq!(client.query("t").collect().await.unwrap().rows, 2);
    assert!(started.elapsed() >= MS(150), "{:?}", started.elapsed());

    // What does not fit the deadline is not waited for.
    let client = connect(&[of(vec![Err(busy(MS(5000)))]).serve().await], options().deadline(MS(3000))).await;
    let started = Instant::now();
    assert_eq!(client.query("t").collect().await.unwrap_err().reason(), ErrorReason::Overloaded);
    assert!(started.elapsed() < MS(3000), "{:?}", started.elapsed());
}
