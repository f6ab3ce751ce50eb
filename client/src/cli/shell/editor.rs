//! The line editor: history, completion, colours, and lines until a statement has its end.

use std::{
    borrow::Cow,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

use rustyline::{
    CompletionType, Config, Context, Editor, Helper,
    completion::Completer,
    error::ReadlineError,
    highlight::{CmdKind, Highlighter},
    hint::{Hint, Hinter},
    history::FileHistory,
    validate::{ValidationContext, ValidationResult, Validator},
};
use sqlparser::{
    dialect::GenericDialect,
    tokenizer::{Token, Tokenizer},
};

use super::{
    names::{KEYWORDS, Names},
    script,
};
use crate::cli::style::Style;

const PROMPT: &str = "basalt> ";
/// Statements that are kept.
const HISTORY: usize = 10_000;

/// What was typed.
pub(super) enum Typed {
    Text(String),
    /// Ctrl-C: what stood there is given up.
    GivenUp,
    /// Ctrl-D.
    End,
}

/// An editor of statements, whose history is kept in a file.
pub(super) struct Lines {
    editor: Editor<Sql, FileHistory>,
    history: Option<PathBuf>,
}

impl Lines {
    /// `names` may change while it is used.
    pub(super) fn new(names: Arc<RwLock<Names>>) -> rustyline::Result<Self> {
        let config = Config::builder()
            .max_history_size(HISTORY)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .auto_add_history(false)
            .build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(Sql { names, style: Style::of(&std::io::stdout()) }));
        let history = history_file();
        if let Some(path) = &history {
            // There is none yet, or it cannot be read: the shell serves without.
            let _ = editor.load_history(path);
        }
        Ok(Self { editor, history })
    }

    /// Reads a statement or a command of the shell. It blocks.
    pub(super) fn read(&mut self) -> rustyline::Result<Typed> {
        let text = match self.editor.readline(PROMPT) {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => return Ok(Typed::GivenUp),
            Err(ReadlineError::Eof) => return Ok(Typed::End),
            Err(error) => return Err(error),
        };
        if !text.trim().is_empty() {
            self.editor.add_history_entry(text.trim_end())?;
            if let Some(path) = &self.history {
                // A history that cannot be kept is no reason to lose what was typed.
                let _ = self.editor.append_history(path);
            }
        }
        Ok(Typed::Text(text))
    }
}

/// `BASALT_HISTORY`, else the state folder of the user; none if the variable is empty.
fn history_file() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("BASALT_HISTORY") {
        return (!path.is_empty()).then(|| PathBuf::from(path));
    }
    let state = std::env::var_os("XDG_STATE_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let folder = state.or_else(home)?.join("basalt");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}

/// What the editor knows of SQL.
struct Sql {
    names: Arc<RwLock<Names>>,
    style: Style,
}

impl Helper for Sql {}

/// What is shown behind the cursor, and never becomes part of the text.
#[derive(Debug, PartialEq, Eq)]
struct Open(&'static str);

impl Hint for Open {
    fn display(&self) -> &str {
        self.0
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Hinter for Sql {
    type Hint = Open;

    fn hint(&self, line: &str, at: usize, _: &Context<'_>) -> Option<Open> {
        open(line).filter(|_| at == line.len())
    }
}

/// What an empty line below a text says: that its statement goes on, and what would end it.
fn open(text: &str) -> Option<Open> {
    let (before, last) = text.rsplit_once('\n')?;
    if !last.is_empty() || is_whole(before) {
        return None;
    }
    Some(Open(match script::cut(before) {
        Ok(_) => "  -> the statement goes on: ; ends it, Ctrl-C gives it up",
        Err(_) => "  -> a quote or a comment is open: Ctrl-C gives the statement up",
    }))
}

impl Completer for Sql {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        Ok(names.complete(line.get(..at).unwrap_or(line), line))
    }
}

impl Validator for Sql {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match is_whole(context.input()) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

/// Whether there is nothing to be waited for: a command of the shell, or statements up to a semicolon.
pub(super) fn is_whole(text: &str) -> bool {
    let text = text.trim();
    let is_command =
        text.starts_with('\\') || ["exit", "quit", "help"].iter().any(|w| text.eq_ignore_ascii_case(w));
    text.is_empty() || is_command || script::cut(text).is_ok_and(|script| script.rest.is_none())
}

impl Highlighter for Sql {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        match painted(line, self.style) {
            Some(text) => Cow::Owned(text),
            None => Cow::Borrowed(line),
        }
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        Cow::Owned(self.style.bold(prompt))
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(self.style.dim(hint))
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        kind != CmdKind::MoveCursor
    }
}

/// A text with its keywords and quoted texts coloured; `None` where it is not understood yet.
fn painted(line: &str, style: Style) -> Option<String> {
    if line.starts_with('\\') {
        return None;
    }
    let tokens = Tokenizer::new(&GenericDialect {}, line).with_unescape(false).tokenize().ok()?;
    let mut out = String::with_capacity(line.len() * 2);
    let mut plain = String::with_capacity(line.len());
    for token in tokens {
        let text = token.to_string();
        plain.push_str(&text);
        out.push_str(&match &token {
            Token::Word(word)
                if word.quote_style.is_none()
                    && KEYWORDS.iter().any(|k| k.eq_ignore_ascii_case(&word.value)) =>
            {
                style.bold(&text)
            }
            Token::SingleQuotedString(_) => style.green(&text),
            _ => text,
        });
    }
    // Colours must not change what is shown: comments and rare quotes are written otherwise than they were read.
    (plain == line).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_whole_with_their_semicolon() {
        for text in ["", "  ", "\\d", "exit", "select 1;", "select ';'\n;", "select 1; -- done"] {
            assert!(is_whole(text), "{text:?}");
        }
        for text in ["select 1", "select ';", "select 1; select 2", "select 1 /* ;"] {
            assert!(!is_whole(text), "{text:?}");
        }
    }

    #[test]
    fn an_empty_line_says_that_a_statement_is_open() {
        let told = |text| open(text).map(|Open(told)| told);
        assert!(told("select 1\n").unwrap().contains("the statement goes on"));
        assert!(told("select 1; select 2\n\n").unwrap().contains("the statement goes on"));
        assert!(told("select 'a\n").unwrap().contains("a quote or a comment is open"));
        for text in ["", "select 1", "select 1\n,", "select 1;\n", "\n"] {
            assert_eq!(told(text), None, "{text:?}");
        }
    }

    #[test]
    fn colours_leave_the_text_as_it_is() {
        let painted = |line| painted(line, Style::always());
        assert_eq!(
            painted("select a from t where b = 'x'").unwrap(),
            "\x1b[1mselect\x1b[0m a \x1b[1mfrom\x1b[0m t \x1b[1mwhere\x1b[0m b = \x1b[32m'x'\x1b[0m"
        );
        assert_eq!(painted("select 'a"), None);
        assert_eq!(painted("\\d select"), None);
    }
}
