//! Every route of HTTP with its action. The router is made of this list, so that none is served that does not stand here.

use super::{Action, Method, Object};

/// A route.
#[derive(Debug)]
pub(crate) struct Route {
    /// GET or POST.
    pub(crate) verb: &'static str,
    /// A part in braces stands for a name.
    pub(crate) path: &'static str,
    pub(crate) method: Method,
}

const fn of(
    verb: &'static str,
    path: &'static str,
    label: &'static str,
    action: Action,
    object: Object<'static>,
) -> Route {
    Route { verb, path, method: Method { service: "http", name: path, label, action, object } }
}

pub(crate) static ROUTES: &[Route] = &[
    of("GET", "/healthz", "HttpHealth", Action::Probe, Object::Server),
    of("GET", "/readyz", "HttpReady", Action::Probe, Object::Server),
    of("GET", "/metrics", "HttpMetrics", Action::Observe, Object::Server),
    of("GET", "/", "HttpRoot", Action::Probe, Object::Server),
    of("GET", "/console/", "HttpConsole", Action::Probe, Object::Server),
    of("GET", "/console/{name}", "HttpConsole", Action::Probe, Object::Server),
    of("POST", "/v1/sql", "HttpSql", Action::Read, Object::Tables),
    of("GET", "/v1/tables", "HttpTables", Action::Read, Object::Catalog),
    of("GET", "/v1/tables/{name}", "HttpTable", Action::Read, Object::Tables),
    of("POST", "/v1/tables/{name}", "HttpLoad", Action::Write, Object::Tables),
];

impl Route {
    /// That of a request.
    pub(crate) fn find(verb: &str, path: &str) -> Option<&'static Self> {
        // What a GET may have, a HEAD may ask for.
        let verb = if verb == "HEAD" { "GET" } else { verb };
        ROUTES.iter().find(|route| route.verb == verb && route.is_of(path))
    }

    /// Whether it is one of those that take requests, and no probe.
    pub(crate) fn is_api(&self) -> bool {
        self.path.starts_with("/v1/")
    }

    fn is_of(&self, path: &str) -> bool {
        match self.path.split_once('{') {
            None => self.path == path,
            Some((before, _)) => {
                path.strip_prefix(before).is_some_and(|name| !name.is_empty() && !name.contains('/'))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_find_their_routes() {
        let label = |verb: &str, path: &str| Route::find(verb, path).map(|route| route.method.label);
        assert_eq!(label("HEAD", "/healthz"), Some("HttpHealth"));
        assert_eq!(label("GET", "/console/"), Some("HttpConsole"));
        assert_eq!(label("GET", "/console/main.js"), Some("HttpConsole"));
        assert_eq!(label("GET", "/v1/tables/a%2Fb"), Some("HttpTable"));
        assert_eq!(label("POST", "/v1/tables/a"), Some("HttpLoad"));
        for (verb, path) in [
            ("GET", "/v1/sql"),
            ("GET", "/v1/tables/"),
            ("GET", "/v1/tables/a/b"),
            ("GET", "/console/a/b"),
            ("PUT", "/metrics"),
        ] {
            assert_eq!(label(verb, path), None, "{verb} {path}");
        }
    }
}
