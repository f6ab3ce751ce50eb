//! Which tables of other writers may be attached: those below folders and prefixes that the configuration names. What lies
//! elsewhere, on the server's disk or behind its credentials, is nothing that a client is told of.

use std::path::{Component, Path, PathBuf, absolute};

use basalt_proto::v1::ErrorReason;

use crate::{Error, status::RequestError};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    folders: Vec<PathBuf>,
    /// Of addresses with a scheme, without a `/` at the end.
    prefixes: Vec<String>,
}

impl Roots {
    /// Those of the configuration; a folder that is not there is an error.
    pub(crate) fn new(roots: &[String]) -> Result<Self, Error> {
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
        Ok(all)
    }

    /// Fails for an address that is not below one of them, whatever is there.
    pub(crate) fn check(&self, url: &str) -> Result<(), RequestError> {
        if self.has(url) {
            return Ok(());
        }
        let message = match self.folders.is_empty() && self.prefixes.is_empty() {
            true => "this server attaches no tables: it was started without --attach-root",
            false => "this server attaches tables from below its --attach-root alone",
        };
        Err(RequestError::new(ErrorReason::PermissionDenied, message).at("url"))
    }

    fn has(&self, url: &str) -> bool {
        let Some(path) = local(url) else {
            let climbs = url.split('/').any(|part| part == "..");
            let below = |prefix: &String| {
                url.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            return !climbs && self.prefixes.iter().any(below);
        };
        // Links lead where they lead. Of what is not there the name has to do.
        let real = path.canonicalize().or_else(|_| absolute(path));
        real.is_ok_and(|real| {
            let climbs = real.components().any(|part| part == Component::ParentDir);
            !climbs && self.folders.iter().any(|folder| real.starts_with(folder))
        })
    }
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
        let roots = Roots::new(&[at("lake"), "s3://bucket/lake/".to_owned()]).unwrap();
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
        assert!(Roots::new(&[at("none")]).is_err());
    }
}
