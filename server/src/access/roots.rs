//! Which tables of other writers may be attached: those below folders and prefixes that the configuration names. What lies
//! elsewhere, on the server's disk or behind its credentials, is nothing that a client is told of; nor are the server's own
//! store and its secrets, wherever they lie.

use std::path::{Component, Path, PathBuf, absolute};

use basalt_proto::v1::ErrorReason;

use crate::{Error, status::RequestError};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    folders: Vec<PathBuf>,
    /// Of addresses with a scheme, without a `/` at the end.
    prefixes: Vec<String>,
    /// The server's own.
    own_folders: Vec<PathBuf>,
    own_prefix: Option<String>,
}

impl Roots {
    /// Those of the configuration; a folder that is not there is an error. `store` and `secrets` are the server's own.
    pub(crate) fn new(roots: &[String], store: &str, secrets: Option<&Path>) -> Result<Self, Error> {
        let mut all = Self::default();
        for root in roots {
            match local(root) {
                None => all.prefixes.push(root.trim_end_matches('/').to_owned()),
                Some(folder) => {
                    let found = folder.canonicalize();
                    let wrong = |error| Error::Config(format!("attach_roots: {root}: {error}"));
                    all.folders.push(found.map_err(wrong)?);
                }
            }
        }
        let store = (store != "memory:").then_some(store);
        all.own_prefix = store.filter(|store| local(store).is_none()).map(object);
        all.own_folders = store.and_then(local).into_iter().chain(secrets).filter_map(real).collect();
        Ok(all)
    }

    /// Fails for an address that is not below one of them, whatever is there, and for the server's own.
    pub(crate) fn check(&self, url: &str) -> Result<(), RequestError> {
        let message = match self.has(url) {
            true if !self.is_own(url) => return Ok(()),
            true => "nothing is attached that is in this server's own store or secrets, or holds them",
            false if self.folders.is_empty() && self.prefixes.is_empty() => {
                "this server attaches no tables: it was started without --attach-root"
            }
            false => "this server attaches tables from below its --attach-root alone",
        };
        Err(RequestError::new(ErrorReason::PermissionDenied, message).at("url"))
    }

    /// Whether it is the server's own, in it or around it.
    fn is_own(&self, url: &str) -> bool {
        let Some(path) = local(url) else {
            let (url, own) = (object(url), self.own_prefix.as_deref());
            return own.is_some_and(|own| is_below(&url, own) || is_below(own, &url));
        };
        real(path).is_none_or(|real| {
            self.own_folders.iter().any(|own| real.starts_with(own) || own.starts_with(&real))
        })
    }

    fn has(&self, url: &str) -> bool {
        let Some(path) = local(url) else {
            let climbs = url.split('/').any(|part| part == "..");
            return !climbs && self.prefixes.iter().any(|prefix| is_below(url, prefix));
        };
        real(path).is_some_and(|real| {
            let climbs = real.components().any(|part| part == Component::ParentDir);
            !climbs && self.folders.iter().any(|folder| real.starts_with(folder))
        })
    }
}

/// Links lead where they lead. Of what is not there the name has to do.
fn real(path: &Path) -> Option<PathBuf> {
    path.canonicalize().or_else(|_| absolute(path)).ok()
}

fn is_below(url: &str, prefix: &str) -> bool {
    url.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// An address in a bucket as the store takes it: without empty parts, by the one scheme.
fn object(url: &str) -> String {
    let url = url.split_once("://").map_or(url, |(_, rest)| rest);
    let parts: Vec<&str> = url.split('/').filter(|part| !part.is_empty()).collect();
    parts.join("/")
}

/// The path of a local address; `None`: it is of another kind.
fn local(url: &str) -> Option<&Path> {
    match url.split_once("://") {
        Some(("file", path)) => Some(Path::new(path)),
        Some(_) => None,
        None => Some(Path::new(url)),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn nothing_is_reached_beside_the_roots() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |path: &str| root.join(path).display().to_string();
        for path in ["lake/t", "lake2/t", "other"] {
            fs::create_dir_all(at(path)).unwrap();
        }
        symlink(at("other"), at("lake/out")).unwrap();
        symlink(at("lake/t"), at("in")).unwrap();
        let roots = Roots::new(&[at("lake"), "s3://bucket/lake/".to_owned()], "memory:", None).unwrap();
        let (inside, file) = (at("lake/t"), format!("file://{}", at("lake/t")));
        for url in [&inside, &file, &at("lake/missing"), &at("in"), "s3://bucket/lake", "s3://bucket/lake/t/"]
        {
            assert!(roots.check(url).is_ok(), "{url}");
        }
        let up = at("lake/../other");
        for url in [
            &up,
            &at("lake/out"),
            &at("lake/missing/../../other/missing"),
            &at("lake2/t"),
            "/",
            "",
            ".",
            "memory:",
            "s3://bucket/lake2",
            "s3://bucket/lake/../other",
            "s3://bucket",
            "https://10.0.0.1/lake",
        ] {
            assert!(roots.check(url).is_err(), "{url}");
            assert!(Roots::default().check(url).is_err(), "{url}");
        }
        assert!(Roots::new(&[at("none")], "memory:", None).is_err());
    }

    #[test]
    fn the_servers_own_is_not_attached() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |path: &str| root.join(path).display().to_string();
        for path in ["lake/store/tables/t", "lake/secrets/t", "lake/other", "lake/store2"] {
            fs::create_dir_all(at(path)).unwrap();
        }
        symlink(at("lake/store/tables"), at("lake/link")).unwrap();
        let secrets = root.join("lake/secrets");
        let folders = [at("lake"), "s3://bucket".to_owned()];
        for store in [at("lake/store"), format!("file://{}", at("lake/store")), at("lake/link/..")] {
            let roots = Roots::new(&folders, &store, Some(&secrets)).unwrap();
            for url in ["lake/other", "lake/store2", "lake/missing"] {
                assert!(roots.check(&at(url)).is_ok(), "{url}");
            }
            for url in [
                "lake",
                "lake/store",
                "lake/store/",
                "lake/store/tables/t",
                "lake/link/t",
                "lake/secrets",
                "lake/secrets/t",
                "lake/store/missing",
            ] {
                let error = roots.check(&at(url)).unwrap_err();
                assert!(error.reason() == "PERMISSION_DENIED" && error.message().contains("own"), "{url}");
            }
            assert!(roots.check("s3://bucket/any").is_ok());
        }
        let roots = Roots::new(&folders, "s3://bucket/own/store/", None).unwrap();
        for url in ["s3://bucket/own/store2", "s3://bucket/other", &at("lake/store")] {
            assert!(roots.check(url).is_ok(), "{url}");
        }
        for url in
            ["s3://bucket", "s3://bucket/own", "s3://bucket//own/store", "s3://bucket/own/store/tables/t"]
        {
            assert!(roots.check(url).is_err(), "{url}");
        }
    }
}
