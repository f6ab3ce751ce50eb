//! The web console: pages that ask this same port, `/v1/sql` above all. They are part of the program and need no key; what
//! they ask for does.

use axum::{
    extract::Request,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
};

/// Where it is.
const ROOT: &str = "/console/";

/// What a page of it may do: run its own scripts, look as it does, and ask this server. Nobody else's page may have it in
/// a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

macro_rules! files {
    ($($name:literal: $kind:expr,)*) => {
        [$(($name, $kind, include_bytes!(concat!("../../console/", $name)))),*]
    };
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Its files, with their media types.
static FILES: [(&str, &str, &[u8]); 21] = files! {
    "index.html": HTML,
    "console.css": "text/css; charset=utf-8",
    "logo.svg": "image/svg+xml",
    "main.js": SCRIPT,
    "server.js": SCRIPT,
    "page.js": SCRIPT,
    "tables.js": SCRIPT,
    "links.js": SCRIPT,
    "load.js": SCRIPT,
    "upload.js": SCRIPT,
    "kinds.js": SCRIPT,
    "sql.js": SCRIPT,
    "sort.js": SCRIPT,
    "files.js": SCRIPT,
    "statements.js": SCRIPT,
    "editor.js": SCRIPT,
    "completion.js": SCRIPT,
    "plan.js": SCRIPT,
    "chart.js": SCRIPT,
    "cluster.js": SCRIPT,
    "queries.js": SCRIPT,
};

/// To its first page.
pub(super) async fn root() -> Redirect {
    Redirect::to(ROOT)
}

pub(super) async fn file(request: Request) -> Response {
    let name = request.uri().path().strip_prefix(ROOT);
    let name = name.map(|name| if name.is_empty() { "index.html" } else { name });
    let Some((_, kind, bytes)) = FILES.iter().find(|(file, ..)| Some(*file) == name) else {
        return (StatusCode::NOT_FOUND, "no such page; the console is at /console/\n").into_response();
    };
    let headers: [(HeaderName, HeaderValue); 5] = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        // Another version of the server has another console.
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, *bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What its pages load is there, so that none has a part missing.
    #[test]
    fn its_files_name_files_that_are_there() {
        let names: Vec<_> = FILES.iter().map(|(name, ..)| *name).collect();
        for (name, kind, bytes) in FILES {
            let text = std::str::from_utf8(bytes).unwrap();
            let quoted = text.split(['"', '\'']).filter_map(|part| part.strip_prefix("./"));
            for part in quoted {
                assert!(names.contains(&part), "{name} loads {part}");
            }
            if kind == HTML {
                assert!(!text.contains("<script>") && !text.contains("style="), "{name} breaks its policy");
            }
        }
    }
}
