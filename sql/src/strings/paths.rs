//! Paths of files as texts.

/// What parts the names of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    Both,
    Slash,
    Backslash,
}

impl Separator {
    /// By its name; any other is both.
    pub(super) fn of(name: &str) -> Self {
        match name {
            "forward_slash" | "system" => Self::Slash,
            "backslash" => Self::Backslash,
            _ => Self::Both,
        }
    }

    fn is(self, c: char) -> bool {
        match self {
            Self::Both => c == '/' || c == '\\',
            Self::Slash => c == '/',
            Self::Backslash => c == '\\',
        }
    }
}

/// The names of a path; one from the root has it in front.
pub(super) fn parsed(path: &str, separator: Separator) -> Vec<&str> {
    let mut parts = Vec::new();
    if let Some(first) = path.chars().next().filter(|first| separator.is(*first)) {
        parts.push(&path[..first.len_utf8()]);
    }
    parts.extend(path.split(|c| separator.is(c)).filter(|part| !part.is_empty()));
    parts
}

/// The first folder of a path.
pub(super) fn dirname(path: &str, separator: Separator) -> String {
    match path.find(|c| separator.is(c)) {
        Some(0) => path[..1].to_owned(),
        Some(end) => path[..end].to_owned(),
        None => String::new(),
    }
}

/// All of a path but what stands last.
pub(super) fn dirpath(path: &str, separator: Separator) -> String {
    match path.rfind(|c| separator.is(c)) {
        Some(0) => path[..1].to_owned(),
        Some(end) => path[..end].to_owned(),
        None => String::new(),
    }
}

/// What stands last, without its ending where that is asked for.
pub(super) fn filename(path: &str, separator: Separator, trims: bool) -> String {
    let name = path.rfind(|c| separator.is(c)).map_or(path, |end| &path[end + 1..]);
    match name.rfind('.').filter(|_| trims) {
        Some(end) => name[..end].to_owned(),
        None => name.to_owned(),
    }
}

/// One path of several, without `.` and `..`; one that begins at the root goes on from there. `None`: a path of another
/// kind is among them.
pub(super) fn join(parts: &[&str]) -> Option<String> {
    if parts.iter().any(|part| part.contains([':', '\\'])) {
        return None;
    }
    let mut names: Vec<&str> = Vec::new();
    let mut is_whole = false;
    for part in parts {
        if part.starts_with('/') {
            names.clear();
            is_whole = true;
        }
        for name in part.split('/').filter(|name| !name.is_empty() && *name != ".") {
            match (name, names.last()) {
                ("..", Some(last)) if *last != ".." => {
                    names.pop();
                }
                ("..", None) if is_whole => {}
                (name, _) => names.push(name),
            }
        }
    }
    Some(match (is_whole, names.is_empty()) {
        (true, _) => format!("/{}", names.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => names.join("/"),
    })
}
