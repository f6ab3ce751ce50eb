//! Which web pages may ask. A page in a browser may be anybody's, and a browser reaches what its user reaches: a server on
//! loopback, without keys.

use axum::{
    extract::Request,
    http::{HeaderValue, header, uri::Authority},
};
use basalt_proto::v1::ErrorReason;

use crate::{
    access::Principal,
    status::{RequestError, Result},
};

/// Takes requests of no page, and of the console's own.
///
/// # Errors
/// It is another page's: its origin is another one, or its server is called by a name that anybody could have given to
/// this address (DNS rebinding), and who sends it has no key that such a page would not have.
pub(super) fn check(request: &Request, principal: &Principal) -> Result<()> {
    let host = request.headers().get(header::HOST).and_then(authority);
    if let Some(origin) = request.headers().get(header::ORIGIN)
        && !is_own(origin, host.as_ref())
    {
        return Err(refused(
            "requests of web pages other than the console are not taken: see the header Origin",
        ));
    }
    let Principal::Anonymous(address) = principal else { return Ok(()) };
    if address.ip().to_canonical().is_loopback() && !host.as_ref().is_none_or(is_of_this_machine) {
        return Err(refused(
            "on loopback this server is `localhost`, an address, or a name without a dot: see the header Host",
        ));
    }
    Ok(())
}

fn refused(message: &str) -> RequestError {
    RequestError::new(ErrorReason::PermissionDenied, message)
}

fn authority(header: &HeaderValue) -> Option<Authority> {
    header.to_str().ok()?.parse().ok()
}

/// Whether a page's origin is where the request goes to.
fn is_own(origin: &HeaderValue, host: Option<&Authority>) -> bool {
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    origin
        .is_some_and(|(scheme, of)| matches!(scheme, "http" | "https") && host.is_some_and(|host| host == of))
}

/// Whether a server is called by no name that others give: one without a dot is of this machine or of its network.
fn is_of_this_machine(host: &Authority) -> bool {
    let name = host.host();
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    address.parse::<std::net::IpAddr>().is_ok()
        || !name.contains('.')
        || name.to_ascii_lowercase().ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn pages_of_others_are_refused_and_the_consoles_are_not() {
        let near = Principal::Anonymous("127.0.0.1:9".parse().unwrap());
        let far = Principal::Anonymous("10.0.0.9:9".parse().unwrap());
        let taken = |host: &str, origin: Option<&str>, principal: &Principal| {
            let mut request = Request::post("/v1/sql").header(header::HOST, host);
            if let Some(origin) = origin {
                request = request.header(header::ORIGIN, origin);
            }
            check(&request.body(Body::empty()).unwrap(), principal).is_ok()
        };
        for (host, origin) in [
            ("localhost:7702", None),
            ("127.0.0.1:7702", Some("http://127.0.0.1:7702")),
            ("[::1]:7702", Some("http://[::1]:7702")),
            ("LocalHost:7702", Some("http://localhost:7702")),
            ("basalt-1:7702", Some("http://basalt-1:7702")),
            ("basalt.localhost", Some("https://basalt.localhost")),
        ] {
            assert!(taken(host, origin, &near), "{host} {origin:?}");
        }
        for (host, origin) in [
            ("127.0.0.1:7702", Some("http://evil.test")),
            ("127.0.0.1:7702", Some("http://127.0.0.1:7703")),
            ("127.0.0.1:7702", Some("null")),
            ("127.0.0.1:7702", Some("")),
            ("127.0.0.1:7702", Some("file://127.0.0.1:7702")),
            // The page's own name, which leads here since its owner has said so.
            ("evil.test:7702", Some("http://evil.test:7702")),
            ("evil.test:7702", None),
            ("localhost.evil.test", None),
            ("evil.", None),
            ("127.0.0.1.evil.test", None),
        ] {
            assert!(!taken(host, origin, &near), "{host} {origin:?}");
        }
        // Who is elsewhere has found the server by its name.
        assert!(taken("basalt.example:7702", None, &far));
        assert!(taken("basalt.example:7702", Some("https://basalt.example:7702"), &far));
        assert!(!taken("basalt.example:7702", Some("https://evil.test"), &far));
    }
}
