#!/usr/bin/env python3
"""Bugs that are planted, so that it is known what the tests find. scripts/planted runs it.

A plant is a text of the sources and what takes its place in a copy of them. All plants are in the copy at once, and a
variable says which of them is active, so that everything is compiled once. Then each is looked for by the tests that are
there for bugs of its kind, until they find it or have used up what they are given. Without any plant they must find
nothing. Ends with 1 where a plant survives.
"""

import argparse
import concurrent.futures
import dataclasses
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# In the text of a plant: whether it is the one that is active.
GUARD = "PLANTED"
# What each crate with plants has at its end. It is asked in places that are passed very often.
ASKED = """
/// Whether a planted bug is one that is active.
#[doc(hidden)]
pub fn planted(name: &str) -> bool {
    static ACTIVE: std::sync::OnceLock<Vec<String>> = std::sync::OnceLock::new();
    let read = || std::env::var("BASALT_PLANTED").unwrap_or_default();
    ACTIVE.get_or_init(|| read().split(',').map(str::to_owned).collect()).iter().any(|active| active == name)
}
"""
CRATES = {"storage/src/": "storage/src/lib.rs", "server/src/": "server/src/lib.rs"}
# Seconds for one seed, some crashes or one test. Who takes longer does not end.
PATIENCE_S = 300
# Crashes of one process: its start counts the calls of a whole life.
CRASHES_AT_ONCE = 30

STORE, LOG = "storage/src/store.rs", "storage/src/log/mod.rs"
LOG_COMMIT, CHECKPOINT, VACUUM = "storage/src/log/commit.rs", "storage/src/log/checkpoint.rs", "storage/src/vacuum.rs"
CATALOG_LOG, DIGEST = "storage/src/catalog.rs", "storage/src/data/digest.rs"
COMMIT, FOLLOW, WRITER = "server/src/tables/commit.rs", "server/src/tables/follow.rs", "server/src/services/writer.rs"
BACKGROUND = "server/src/tables/background.rs"
COORDINATOR, SCATTER = "server/src/coordinator/mod.rs", "server/src/coordinator/scatter.rs"
SIMULATION = "server/src/simulation/mod.rs"
LINK, MEMBERS = "server/src/membership/link.rs", "server/src/membership/members.rs"

# What finds plants. The simulation, crashes and damages were made for no bug; a test by its name was.
SIMULATED, NAMED = "simulation", "simulation behind a name"
# That a node was not told of a commit is soon hidden: it looks into the store every second, whenever it writes itself, and
# when it is told of another commit. Here one node alone writes, and nobody looks in the background, which is no part of
# what is promised: a node is told, or stale.
QUIET, NAMED_QUIET = "simulation with one writer", "simulation behind a name with one writer"
SIMULATIONS = {SIMULATED, NAMED, QUIET, NAMED_QUIET}
CRASHED, DAMAGED = "crashes", "damages"


# What is in force beside a plant, and alone makes nothing wrong.
UNCOMPARED, ONE_WRITER = "uncompared", "one-writer"


@dataclasses.dataclass
class Plant:
    name: str
    # What is wrong then.
    what: str
    # Files, texts in them, and what takes their place.
    edits: list
    # Who looks for it, one after the other.
    by: list
    # The commit that cured it, where it was a bug.
    cure: str = ""
    # What else is in force, without which it would be no more than an error.
    beside: list = dataclasses.field(default_factory=list)


PLANTS = [
    # The store.
    Plant(
        "files-unsynced",
        "What is written to a directory is not synced: neither the file nor its folder.",
        [(STORE, ".with_fsync(true)", ".with_fsync(!PLANTED)")],
        [CRASHED],
    ),
    Plant(
        "folder-unsynced",
        "The folder of a new store is not synced into those above it.",
        [
            (
                STORE,
                "for parent in path.ancestors().skip(1).take(first_new) {",
                "for parent in path.ancestors().skip(1).take(if PLANTED { 0 } else { first_new }) {",
            )
        ],
        [CRASHED],
    ),
    Plant(
        "retry-unsynced",
        "A version that is there, though its writing failed, counts without being synced.",
        [
            (
                STORE,
                "let sync = move || {",
                "let sync = move || {\n            if PLANTED {\n                return Ok(());\n            }",
            )
        ],
        ["it disk::ambiguous::what_is_told_of_a_write_that_failed_is_true"],
    ),
    Plant(
        "create-overwrites",
        "A file that must be new takes the place of one that is there.",
        [
            (
                STORE,
                "match self.objects.put_opts(&self.place(path)?, bytes.into(), PutMode::Create.into()).await {",
                "let mode = if PLANTED { PutMode::Overwrite } else { PutMode::Create };\n"
                "        match self.objects.put_opts(&self.place(path)?, bytes.into(), mode.into()).await {",
            )
        ],
        [SIMULATED],
    ),
    # Versions of a table.
    Plant(
        "data-behind-commit",
        "A version is made before its data file is written.",
        [
            (
                "storage/src/data/write.rs",
                "self.store().put(&path, bytes).await?;",
                "if PLANTED {\n"
                "            let (store, path) = (self.store().clone(), path.clone());\n"
                "            tokio::spawn(async move { store.put(&path, bytes).await });\n"
                "        } else {\n"
                "            self.store().put(&path, bytes).await?;\n"
                "        }",
            )
        ],
        [CRASHED, SIMULATED],
    ),
    Plant(
        "file-name-reused",
        "Data files of the same millisecond have the same name.",
        [
            (
                "storage/src/data/write.rs",
                'let path = format!("part-{}.zstd.parquet", self.store().new_id());',
                "let moment = uuid::Uuid::from_u128(self.store().now_millis().cast_unsigned().into());\n"
                "        let id = if PLANTED { moment } else { self.store().new_id() };\n"
                '        let path = format!("part-{id}.zstd.parquet");',
            )
        ],
        [SIMULATED],
    ),
    Plant(
        "version-of-another",
        "Who comes second to a version takes it for its own.",
        [
            (
                LOG_COMMIT,
                "Ok(Some(found)) if found == bytes => return",
                "Ok(Some(found)) if found == bytes || PLANTED => return",
            )
        ],
        [SIMULATED],
    ),
    Plant(
        "lost-answer-is-no",
        "A commit whose answer was lost is said not to be made.",
        [
            (
                LOG_COMMIT,
                "            Err(e) => e,\n        };\n        let until",
                "            Err(e) if PLANTED => return Err(CommitError::Storage(e)),\n"
                "            Err(e) => e,\n        };\n        let until",
            )
        ],
        ["storage ambiguous::what_is_told_of_a_write_is_true"],
    ),
    Plant(
        "late-version-let-in",
        "A version whose writing failed is not kept out where it may still come.",
        [
            (
                LOG_COMMIT,
                "                Ok(None) => {\n",
                "                Ok(None) if PLANTED => return Ok(false),\n                Ok(None) => {\n",
            )
        ],
        ["storage ambiguous::a_lost_answer_is_found_out"],
    ),
    Plant(
        "unsynced-acknowledged",
        "A version that could not be synced is acknowledged.",
        [
            (
                LOG_COMMIT,
                "            Err(e) => {\n                *lock(&self.unsynced)",
                "            Err(_) if PLANTED => Ok(true),\n            Err(e) => {\n                *lock(&self.unsynced)",
            )
        ],
        ["it disk::ambiguous::what_is_told_of_a_write_that_failed_is_true"],
    ),
    Plant(
        "unsynced-shown",
        "A version that could not be synced is followed, and so shown.",
        [
            (
                LOG_COMMIT,
                "let Some(version) = *lock(&self.unsynced) else { return Ok(()) };",
                "let Some(version) = lock(&self.unsynced).filter(|_| !PLANTED) else { return Ok(()) };",
            )
        ],
        ["it disk::ambiguous::what_is_told_of_a_write_that_failed_is_true"],
    ),
    Plant(
        "commit-into-nothing",
        "A version is acknowledged that was written where the log had been removed.",
        [
            (
                LOG_COMMIT,
                "let listed = self.list_from(base).await?;",
                "if PLANTED {\n            return Ok(true);\n        }\n        let listed = self.list_from(base).await?;",
            )
        ],
        ["storage cut::nothing_is_committed_to_a_log_that_is_gone", "storage vacuum::the_log_is_believed_and_not_the_hint"],
    ),
    Plant(
        "vector-unwritten",
        "A version names a file of deletion vectors that is not written.",
        [
            (
                LOG_COMMIT,
                "if let Some((path, bytes)) = planned.vectors {",
                "if let Some((path, bytes)) = planned.vectors.filter(|_| !PLANTED) {",
            )
        ],
        ["storage deletions::vectors_of_one_commit_share_a_file"],
    ),
    # What a start reads of it.
    Plant(
        "hint-trusted",
        "The hint is written before the checkpoint that it names, and is trusted: none but that one is looked for.",
        [
            (
                CHECKPOINT,
                "self.store().put(&names::checkpoint(version), bytes).await?;",
                "let behind = bytes.clone();\n"
                "        if !PLANTED {\n"
                "            self.store().put(&names::checkpoint(version), bytes).await?;\n"
                "        }",
            ),
            (
                CHECKPOINT,
                "self.store().put(names::LAST_CHECKPOINT, hint).await?;",
                "self.store().put(names::LAST_CHECKPOINT, hint).await?;\n"
                "        if PLANTED {\n"
                "            self.store().put(&names::checkpoint(version), behind).await?;\n"
                "        }",
            ),
            (
                "storage/src/log/checkpoints.rs",
                "let after = hint.and_then(|hint| hint.version.checked_sub(1)).map(names::commit);",
                "if let Some(hint) = hint.filter(|_| PLANTED) {\n"
                "            let checkpoint = Checkpoint { version: hint.version, naming: Naming::Parts(1) };\n"
                "            let replay = self.read_checkpoint(checkpoint).await?;\n"
                "            return Ok(Start { replay, from: hint.version + 1, lost: None });\n"
                "        }\n"
                "        let after = hint.and_then(|hint| hint.version.checked_sub(1)).map(names::commit);",
            ),
        ],
        [CRASHED],
    ),
    Plant(
        "hint-ends-log",
        "The log is believed to end with the checkpoint that the hint names.",
        [
            (
                LOG,
                "LogFile::Commit(version) if version >= from => Some(version),",
                "LogFile::Commit(version)\n"
                "                if version >= from && !(PLANTED && hint.as_ref().is_some_and(|hint| version > hint.version)) =>\n"
                "            {\n                Some(version)\n            }",
            )
        ],
        ["storage commits::a_checkpoint_says_what_the_replay_says", "storage history::every_history_is_kept"],
    ),
    Plant(
        "hint-tells-what-is-gone",
        "The hint is asked, and not the log, whether versions behind one that was read are gone.",
        [
            (
                LOG,
                "let own = self.store.head(&names::commit(version)).await?;",
                "if PLANTED {\n"
                "            let hint = self.last_checkpoint().await?;\n"
                "            return Ok(hint.is_none_or(|hint| hint.version <= version));\n"
                "        }\n"
                "        let own = self.store.head(&names::commit(version)).await?;",
            )
        ],
        ["storage vacuum::the_log_is_believed_and_not_the_hint"],
    ),
    Plant(
        "hole-passed-over",
        "A version that is missing in the log is passed over.",
        [(LOG, "if *found != expected {", "if *found != expected && !PLANTED {")],
        ["storage hostile::a_log_with_a_hole_is_refused"],
    ),
    Plant(
        "end-cut-off",
        "A log that ends before the checkpoint that the hint names is served.",
        [
            (
                LOG,
                "hint.filter(|last| last.version > state.version)",
                "hint.filter(|last| last.version > state.version && !PLANTED)",
            )
        ],
        ["storage cut::an_entry_that_is_gone_is_missed"],
    ),
    Plant(
        "checkpoint-without-requests",
        "Checkpoints forget which writes were made.",
        [
            (
                CHECKPOINT,
                "let requests = state.requests().filter(move |done| now",
                "let requests = state.requests().filter(move |done| !PLANTED && now",
            )
        ],
        [SIMULATED, "storage commits::a_checkpoint_says_what_the_replay_says"],
    ),
    Plant(
        "checkpoint-without-vectors",
        "Checkpoints forget which rows are deleted.",
        [
            (
                CHECKPOINT,
                "let mut adds = state.files.values().map(|file| file.to_add(false));",
                "let mut adds = state.files.values().map(|file| {\n"
                "        let mut add = file.to_add(false);\n"
                "        if PLANTED {\n"
                "            add.deletion_vector = None;\n"
                "        }\n"
                "        add\n"
                "    });",
            )
        ],
        [CRASHED],
    ),
    # What damage is noticed.
    Plant(
        "digest-ignored",
        "A data file is served whose digest differs.",
        [(DIGEST, "if expected == found {", "if expected == found || PLANTED {")],
        [DAMAGED, "storage damage::a_scrub_names_what_is_damaged"],
    ),
    Plant(
        "version-seal-ignored",
        "A version is believed whose bytes are not those that were written.",
        [
            (
                "storage/src/log/actions.rs",
                "if found.as_ref() == Some(&seal) {",
                "if found.as_ref() == Some(&seal) || PLANTED {",
            )
        ],
        [DAMAGED, "storage cut::an_entry_that_was_cut_anywhere_is_an_error_that_names_it"],
    ),
    Plant(
        "checkpoint-seal-ignored",
        "A checkpoint is believed whose bytes are not those that were written.",
        [
            (
                DIGEST,
                "match z85::encode(&of(&unsealed).to_be_bytes()).into_bytes() == told {",
                "match PLANTED || z85::encode(&of(&unsealed).to_be_bytes()).into_bytes() == told {",
            )
        ],
        [DAMAGED, "storage damage::a_bit_of_a_checkpoint_that_turns_is_an_error"],
    ),
    Plant(
        "catalog-seal-ignored",
        "An entry of the catalog is believed whose bytes are not those that were written.",
        [(CATALOG_LOG, "if seal.crc32 != crc32fast::hash(line) {", "if seal.crc32 != crc32fast::hash(line) && !PLANTED {")],
        [DAMAGED, "storage misplaced::an_entry_of_the_catalog_that_has_changed_is_an_error"],
    ),
    # Removing files.
    Plant(
        "removed-too-early",
        "A file is removed as soon as it has left the table.",
        [
            (
                VACUUM,
                "if now.saturating_sub(at) > keep_millis {",
                "if now.saturating_sub(at) > if PLANTED { 0 } else { keep_millis } {",
            )
        ],
        ["storage vacuum::what_left_the_table_goes_when_its_time_is_over"],
    ),
    Plant(
        "uncommitted-removed",
        "A file that no version names is removed, though one may be on its way to name it.",
        [
            (
                VACUUM,
                "} else if is_ours(&file.path) && file.age() > ORPHAN_AGE + self.keep() {",
                "} else if is_ours(&file.path) && (PLANTED || file.age() > ORPHAN_AGE + self.keep()) {",
            )
        ],
        ["storage vacuum::what_a_crash_leaves_behind_harms_nobody"],
    ),
    Plant(
        "vacuum-behind",
        "What is needed is told by a version that is not the newest.",
        [
            (
                VACUUM,
                "let state = self.refresh(state).await?;",
                "let state = if PLANTED { Arc::clone(state) } else { self.refresh(state).await? };",
            )
        ],
        ["storage vacuum::a_vacuum_knows_the_newest_version"],
    ),
    Plant(
        "log-without-checkpoint",
        "Old versions of the log are removed that no checkpoint has taken the place of.",
        [(VACUUM, "version < cut && file.age() > age", "(version < cut || PLANTED) && file.age() > age")],
        [CRASHED],
    ),
    Plant(
        "pins-ignored",
        "Files are removed that a pinned version needs.",
        [
            (
                VACUUM,
                "forget_needed(self.store(), &mut [&mut left, &mut orphans], state)?;",
                "if !PLANTED {\n                forget_needed(self.store(), &mut [&mut left, &mut orphans], state)?;\n            }",
            )
        ],
        ["storage retained::a_pinned_version_is_readable_everywhere_until_its_lease_is_over"],
    ),
    # The catalog.
    Plant(
        "two-tables-of-a-name",
        "Who comes second with a name does not look whether it is taken by now.",
        [
            (
                CATALOG_LOG,
                "            state.check_free(&table.name)?;\n            Ok(Step::Create",
                "            if !PLANTED {\n                state.check_free(&table.name)?;\n            }\n            Ok(Step::Create",
            )
        ],
        ["storage catalog::one_of_many_makes_a_table"],
    ),
    Plant(
        "dropped-elsewhere",
        "A write into a table is acknowledged that another server has dropped.",
        [
            (
                "server/src/tables/closed.rs",
                "let is_asked = !self.attached && self.is_named();",
                "let is_asked = !self.attached && self.is_named() && !PLANTED;",
            )
        ],
        ["it freshness::what_is_written_to_a_table_that_another_server_has_dropped_is_refused"],
        "0fe7951",
    ),
    Plant(
        "refusal-untold",
        "Of what the catalog refuses neither this node nor the others hear.",
        [
            (
                "server/src/tables/catalog.rs",
                'if matches!(error.reason(), "TABLE_NOT_FOUND" | "TABLE_EXISTS" | "WRITE_CONFLICT") {',
                'if matches!(error.reason(), "TABLE_NOT_FOUND" | "TABLE_EXISTS" | "WRITE_CONFLICT") && !PLANTED {',
            )
        ],
        ["server services::writer::tests::what_the_catalog_refuses_is_known_here_and_told"],
        "616de4d",
    ),
    Plant(
        "outage-is-damage",
        "A table that a store in an outage did not give at a start is said to be damaged.",
        [
            (
                "server/src/tables/unreadable.rs",
                "    if error.is_outage() {\n        let message",
                "    if error.is_outage() && !PLANTED {\n        let message",
            )
        ],
        [SIMULATED],
        "1c66ce4",
    ),
    # Writes.
    Plant(
        "acknowledged-before",
        "Writes are acknowledged before their commit.",
        [
            (
                COMMIT,
                "        let outcome = caught_async(self.commit_writes(&mut group)).await;",
                "        if PLANTED {\n"
                "            let version = self.state().version() + 1;\n"
                "            for write in &mut group {\n"
                "                let done = std::mem::replace(&mut write.done, oneshot::channel().0);\n"
                "                let commit = Commit { version, rows: write.rows };\n"
                "                let _ = done.send(Ok(Written { commit, replaced: Some(0) }));\n"
                "            }\n"
                "        }\n"
                "        let outcome = caught_async(self.commit_writes(&mut group)).await;",
            )
        ],
        [CRASHED],
    ),
    Plant(
        "request-id-lost",
        "The ids of writes do not come into the log.",
        [
            (
                COMMIT,
                "                requests: requests.clone(),",
                "                requests: if PLANTED { Vec::new() } else { requests.clone() },",
            )
        ],
        [SIMULATED],
    ),
    Plant(
        "known-write-made-again",
        "A write is made again that came with the version of another node in between.",
        [(COMMIT, "if is_known(&state, &requests) {", "if !PLANTED && is_known(&state, &requests) {")],
        [SIMULATED],
    ),
    Plant(
        "part-of-a-batch-lost",
        "Of small writes that share a version the first alone is written.",
        [
            (
                COMMIT,
                "together.append(std::mem::replace(&mut write.pending, RowBuffer::new(self.table.schema())));",
                "let pending = std::mem::replace(&mut write.pending, RowBuffer::new(self.table.schema()));\n"
                "            if !(PLANTED && together.rows() > 0) {\n"
                "                together.append(pending);\n"
                "            }",
            )
        ],
        [SIMULATED],
    ),
    Plant(
        "replaced-by-an-older-version",
        "Rows are not replaced that came while others were looked for.",
        [
            (
                COMMIT,
                "if replaced.is_some() && state.version() != searched.version() {",
                "if !PLANTED && replaced.is_some() && state.version() != searched.version() {",
            )
        ],
        [SIMULATED, "it freshness::a_replace_takes_what_another_server_has_just_written"],
    ),
    Plant(
        "deleted-over-a-newer-version",
        "A deletion is made though its fragments are others by now.",
        [(COMMIT, "if same && base.retention()", "if (same || PLANTED) && base.retention()")],
        [SIMULATED],
    ),
    Plant(
        "merged-over-a-newer-version",
        "Fragments are merged as they were, though rows of theirs were deleted meanwhile.",
        [
            (
                BACKGROUND,
                "let (operation, base) = (Operation::Compact, state);",
                "let (operation, base) = (Operation::Compact, if PLANTED { self.state() } else { state });",
            )
        ],
        [SIMULATED],
    ),
    Plant(
        "merged-and-kept",
        "One of the fragments that were merged stays.",
        [
            (
                BACKGROUND,
                "let gone = was.iter().map(Fragment::id).collect();",
                "let gone = was.iter().skip(usize::from(PLANTED)).map(Fragment::id).collect();",
            )
        ],
        [CRASHED],
    ),
    Plant(
        "expiry-takes-all",
        "A fragment goes whole of which retention hides some rows.",
        [
            (
                "server/src/tables/retention.rs",
                "if hidden > 0 && hidden >= live {",
                "if hidden > 0 && (hidden >= live || PLANTED) {",
            )
        ],
        ["it retention::old_rows_are_hidden_and_freed_on_storage", "it retention::old_rows_are_hidden_and_freed_in_memory"],
    ),
    # Reads as new as what was acknowledged.
    Plant(
        "version-before",
        "The version before the newest is read.",
        [
            (
                "server/src/tables/stored.rs",
                "        let mut known = [&states.newest].into_iter().chain(states.older.iter().rev().map(|(state, _)| state));",
                "        let known = [&states.newest].into_iter().chain(states.older.iter().rev().map(|(state, _)| state));\n"
                "        let mut known = known.skip(usize::from(PLANTED && version.is_none() && !states.older.is_empty()));",
            )
        ],
        [SIMULATED],
    ),
    Plant(
        "commit-untold",
        "The others are not told of a commit.",
        [
            (
                FOLLOW,
                "if self.is_named() {\n            self.shared.peers().committed(",
                "if self.is_named() && !PLANTED {\n            self.shared.peers().committed(",
            )
        ],
        [SIMULATED],
    ),
    Plant(
        "announced-unread",
        "What was announced is not read before a question is answered.",
        [
            (
                "server/src/coordinator/fresh.rs",
                "state.tables.refresh_to(table, version).await?;",
                "if !PLANTED {\n            state.tables.refresh_to(table, version).await?;\n        }",
            )
        ],
        [SIMULATED],
    ),
    Plant(
        "own-acknowledgement-unread",
        "A node does not read what it has acknowledged of another's.",
        [
            (
                FOLLOW,
                "self.state().version() >= self.acknowledged.load(Ordering::Acquire)",
                "PLANTED || self.state().version() >= self.acknowledged.load(Ordering::Acquire)",
            )
        ],
        ["server services::writer::tests::what_was_acknowledged_here_is_read_here"],
        "30ae605",
    ),
    Plant(
        "nothing-deleted-untold",
        "Who finds nothing to delete does not tell the others of the version that says so.",
        [
            (
                "server/src/tables/delete.rs",
                "            self.acknowledge(base.version()).await;",
                "            if !PLANTED {\n                self.acknowledge(base.version()).await;\n            }",
            )
        ],
        ["server services::writer::tests::what_was_acknowledged_here_is_read_here"],
        "30ae605",
    ),
    Plant(
        "replay-untold",
        "A write that is known is acknowledged without telling the others, whom the first try may not have told.",
        [
            (
                WRITER,
                "                state.tables.tell(appender.table(), version).await;",
                "                if !PLANTED {\n                    state.tables.tell(appender.table(), version).await;\n                }",
            )
        ],
        ["server services::writer::tests::a_write_that_is_tried_again_is_told_to_the_others"],
        "23dae0f",
    ),
    Plant(
        "known-untold",
        "The same where another node's version shows at the commit that the write is known.",
        [
            (
                COMMIT,
                "Ok(Outcome::Known) => Some(self.state().version()),",
                "Ok(Outcome::Known) if PLANTED => None,\n            Ok(Outcome::Known) => Some(self.state().version()),",
            )
        ],
        ["server services::writer::tests::a_write_that_is_tried_again_is_told_to_the_others"],
        "23dae0f",
    ),
    Plant(
        "looked-at-its-end",
        "A look into the store counts from its answer on, not from its question.",
        [
            (
                FOLLOW,
                "        let at = self.shared.now();\n        let newest = self.newest().await;",
                "        let at = self.shared.now();\n        let newest = self.newest().await;\n        let at = if PLANTED { self.shared.now() } else { at };",
            )
        ],
        [SIMULATED],
    ),
    Plant(
        "deletion-of-an-older-version",
        "A deletion does not look into the store for what it is to take.",
        [
            (
                "server/src/services/ingest.rs",
                "fresh::newest(&self.0, &request.table, request.filter.as_ref()).await?;",
                "if !PLANTED {\n            fresh::newest(&self.0, &request.table, request.filter.as_ref()).await?;\n        }",
            )
        ],
        [SIMULATED, "it freshness::a_deletion_takes_what_another_server_has_just_written"],
    ),
    # Leases and members.
    Plant(
        "silent-untold",
        "A commit is acknowledged though a member with a lease was not told of it.",
        [
            (
                LINK,
                "            // It is given no other lease until it has heard.\n",
                "            if PLANTED {\n                return;\n            }\n            // It is given no other lease until it has heard.\n",
            )
        ],
        [QUIET],
    ),
    Plant(
        "earlier-leases-forgotten",
        "Leases are forgotten that an earlier process of a node gave.",
        [
            (
                LINK,
                "let given = self.health().given;",
                "let (given, started) = (self.health().given, started.filter(|_| !PLANTED));",
            )
        ],
        [QUIET, "server membership::link::tests::a_lease_is_given_to_who_can_be_told"],
    ),
    Plant(
        "lease-across-a-gap",
        "A lease that follows a gap counts from before it.",
        [
            (
                LINK,
                "self.lease.filter(|lease| lease.is_good(environment)) {",
                "self.lease.filter(|lease| PLANTED || lease.is_good(environment)) {",
            )
        ],
        [QUIET, "server membership::link::tests::a_lease_goes_on_without_a_gap_or_begins_anew"],
    ),
    Plant(
        "lease-from-its-answer",
        "A lease counts from its answer on, not from its question.",
        [
            (
                LINK,
                "health.lease = health.renewed(at, length,",
                "health.lease = health.renewed(if PLANTED { Moment::now(&*self.environment) } else { at }, length,",
            )
        ],
        [QUIET, "server membership::link::tests::a_lease_counts_from_its_question"],
    ),
    Plant(
        "lease-while-overdue",
        "A member has another lease while it was not told of a commit.",
        [
            (
                LINK,
                "if health.failures > 0 || health.overdue > 0 ||",
                "if health.failures > 0 || health.overdue > 0 && !PLANTED ||",
            )
        ],
        [QUIET, "server membership::link::tests::a_lease_is_given_to_who_can_be_told"],
    ),
    Plant(
        "leaver-answers",
        "A node that gave up its leases answers from what it knows.",
        [
            (
                MEMBERS,
                "if blind || self.left.load(Ordering::Acquire) {",
                "if blind || self.left.load(Ordering::Acquire) && !PLANTED {",
            )
        ],
        [QUIET, SIMULATED, "server membership::members::tests::who_has_left_has_heard_of_nothing"],
    ),
    Plant(
        "member-forgotten",
        "A member that is silent for two seconds is forgotten.",
        [
            (
                MEMBERS,
                "*source != Source::Told || link.silence() < patience",
                "(*source != Source::Told && !PLANTED)\n"
                "                || link.silence() < if PLANTED { Duration::from_secs(2) } else { patience }",
            )
        ],
        [QUIET],
    ),
    Plant(
        "unknown-unwaited",
        "A writer does not wait for nodes behind a name that it may not know.",
        [
            (
                MEMBERS,
                "        if self.names.is_empty() {\n            return None;",
                "        if self.names.is_empty() || PLANTED {\n            return None;",
            )
        ],
        [NAMED_QUIET, "server membership::members::tests::whom_another_node_knows_is_known"],
        "0478faf",
    ),
    Plant(
        "hearsay-unlearned",
        "A node counts leases without knowing those whom the others know.",
        [
            (
                MEMBERS,
                "status.known.iter().take(limits::NODES).filter(is_other)",
                "status.known.iter().take(if PLANTED { 0 } else { limits::NODES }).filter(is_other)",
            )
        ],
        [NAMED_QUIET, "server membership::members::tests::whom_another_node_knows_is_known"],
        "0478faf",
    ),
    Plant(
        "map-stale",
        "Who joins keeps the first map of the members that it has seen.",
        [
            (
                MEMBERS,
                "        *view = Arc::new(new);",
                "        if !PLANTED || view.nodes.len() < 2 {\n            *view = Arc::new(new);\n        }",
            )
        ],
        [NAMED],
    ),
    Plant(
        "place-lost",
        "A node counts itself among those before it, so that a fragment has one place less.",
        [
            (
                "server/src/membership/placement.rs",
                "score > own || (score == own && other < place)",
                "score > own || (score == own && (other < place || PLANTED))",
            )
        ],
        [SIMULATED],
    ),
    # Answers of many nodes.
    Plant(
        "part-dropped",
        "What a node that fails should have answered is left out.",
        [
            (
                SCATTER,
                "            Err(Failure::Node(why)) => self.moved(",
                "            Err(Failure::Node(_)) if PLANTED => Ok(Vec::new()),\n            Err(Failure::Node(why)) => self.moved(",
            )
        ],
        [SIMULATED, "server coordinator::scatter::tests::what_fails_moves_on_and_nothing_else"],
        beside=[UNCOMPARED],
    ),
    Plant(
        "fragment-twice",
        "The fragments of a slow node count in its part, and in those of the nodes that took over.",
        [
            (
                SCATTER,
                "                part = &mut own => match part {\n                    Ok(part) => return Ok(vec![part]),",
                "                part = &mut own => match part {\n"
                "                    Ok(part) if PLANTED => {\n"
                "                        let mut parts = others.await?;\n"
                "                        parts.push(part);\n"
                "                        return Ok(parts);\n"
                "                    }\n"
                "                    Ok(part) => return Ok(vec![part]),",
            )
        ],
        [SIMULATED, "server coordinator::scatter::tests::what_is_slow_is_given_to_the_next_and_counts_once"],
        beside=[UNCOMPARED],
    ),
    Plant(
        "part-of-another-version",
        "A node answers from the newest version that it knows.",
        [
            (
                "server/src/coordinator/local.rs",
                "state.tables.pin(&task.table, Some(task.version)).ok().and_then(same)",
                "state.tables.pin(&task.table, Some(task.version).filter(|_| !PLANTED)).ok().and_then(same)",
            ),
        ],
        [SIMULATED],
        beside=[UNCOMPARED],
    ),
    Plant(
        "merged-twice",
        "The first message of a part is merged twice.",
        [
            (
                COORDINATOR,
                "                for message in part.messages {\n                    for piece",
                "                let again = if PLANTED { part.messages.first().cloned() } else { None };\n"
                "                for message in part.messages.into_iter().chain(again) {\n                    for piece",
            )
        ],
        [SIMULATED],
    ),
    Plant(
        "rows-to-delete-lost",
        "Of the rows that nodes find for a deletion those of the first alone are taken.",
        [
            (
                "server/src/coordinator/select.rs",
                "Ok((Sip::union_all(&sips), statistics))",
                "let n = if PLANTED { sips.len().min(1) } else { sips.len() };\n        Ok((Sip::union_all(&sips[..n]), statistics))",
            )
        ],
        [SIMULATED],
    ),
    # Caches.
    Plant(
        "deleted-rows-cached",
        "The deletion vector of any version of a fragment that is in memory is taken.",
        [
            (
                "server/src/cache.rs",
                "(Item::Deleted(deleted), Id::Deleted(id)) if id == deletions => {",
                "(Item::Deleted(deleted), Id::Deleted(id)) if id == deletions || PLANTED && deletions != 0 => {",
            )
        ],
        [SIMULATED],
    ),
    Plant(
        "cache-of-other-rows",
        "A file of the cache on disk is read whatever rows it says it is of.",
        [
            (
                "server/src/disk/file.rs",
                'ensure(index[HEAD..].starts_with(key.as_bytes()), "it is of other rows")?;',
                'ensure(PLANTED || index[HEAD..].starts_with(key.as_bytes()), "it is of other rows")?;',
            )
        ],
        ["it disk_cache::a_damaged_cache_answers_the_same", SIMULATED],
    ),
    Plant(
        "cache-hash-ignored",
        "A column of the cache on disk is read whose hash differs.",
        [
            (
                "server/src/disk/file.rs",
                "ensure(XxHash3_64::oneshot(&bytes) == entry.hashes[i],",
                "ensure(PLANTED || XxHash3_64::oneshot(&bytes) == entry.hashes[i],",
            )
        ],
        [DAMAGED, "it disk_cache::a_damaged_cache_answers_the_same"],
    ),
]


HELPS = [
    Plant(
        UNCOMPARED,
        "Nobody compares what was answered with what was asked.",
        [
            (
                "server/src/coordinator/coverage.rs",
                'wrong.extend(open.into_keys().map(|id| (id, "not answered")));',
                'wrong.extend(open.into_keys().map(|id| (id, "not answered")));\n    if PLANTED {\n        return Ok(());\n    }',
            )
        ],
        [],
    ),
    Plant(
        ONE_WRITER,
        "One node alone is written to, and nobody looks into the store in the background.",
        [
            (
                SIMULATION,
                "            let node = chance.random_range(0..self.nodes);\n            let done =",
                "            let node = if PLANTED { 0 } else { chance.random_range(0..self.nodes) };\n            let done =",
            ),
            (
                BACKGROUND,
                "            tasks.start(id, Work::Follow, Tables::clone(&tables).follow_store(Arc::clone(&stored)));",
                "            if !PLANTED {\n"
                "                tasks.start(id, Work::Follow, Tables::clone(&tables).follow_store(Arc::clone(&stored)));\n"
                "            }",
            ),
        ],
        [],
    ),
]


def crate_of(file):
    return next(lib for start, lib in CRATES.items() if file.startswith(start))


def planted(root):
    """The files with all plants, and what does not fit."""
    texts, wrong = {}, []
    for plant in [*PLANTS, *HELPS]:
        for file, old, new in plant.edits:
            text = texts.setdefault(file, (root / file).read_text())
            if (found := text.count(old)) != 1:
                wrong.append(f"{plant.name}: {file} has its text {found} times, and not once")
            elif GUARD not in new:
                wrong.append(f"{plant.name}: what it puts into {file} asks for nothing")
    # Each is taken from the file as it is, so that none of them is a part of another.
    for file, text in texts.items():
        places = []
        for plant in [*PLANTS, *HELPS]:
            for of, old, new in plant.edits:
                if of == file and text.count(old) == 1:
                    guarded = new.replace(GUARD, f'crate::planted("{plant.name}")')
                    places.append((text.index(old), text.index(old) + len(old), guarded, plant.name))
        places.sort()
        for (_, end, _, name), (start, _, _, other) in itertools.pairwise(places):
            if start < end:
                wrong.append(f"{name} and {other} want the same text of {file}")
        for start, end, new, _ in reversed(places):
            text = text[:start] + new + text[end:]
        texts[file] = text
    for lib in {crate_of(file) for file in texts}:
        texts[lib] = texts.get(lib, (root / lib).read_text()) + ASKED
    names = [plant.name for plant in [*PLANTS, *HELPS]]
    wrong += [f"{name} is there twice" for name in set(names) if names.count(name) > 1]
    return texts, wrong


def tests_missing(root):
    """Tests by name that are not there."""
    folders = {"it": ["server/tests/it"], "server": ["server/src"], "storage": ["storage/tests/it"]}
    for plant in PLANTS:
        for who in plant.by:
            kind, _, test = who.partition(" ")
            if kind in folders and "::" in test:
                name = f"fn {test.rsplit('::', 1)[1]}("
                files = (file for folder in folders[kind] for file in (root / folder).rglob("*.rs"))
                if not any(name in file.read_text() for file in files):
                    yield f"{plant.name}: there is no test {test}"


def copy(root, into, texts):
    """Makes the copy; what is as it was is not touched, so that it is not compiled again."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=root, check=True, capture_output=True
    )
    names = {name for name in listed.stdout.decode().split("\0") if name and (root / name).is_file()}
    for name in names:
        path = into / name
        bytes = texts[name].encode() if name in texts else (root / name).read_bytes()
        if not path.is_file() or path.read_bytes() != bytes:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes)
            shutil.copymode(root / name, path)
    for path in [path for path in into.rglob("*") if path.is_file()]:
        if str(path.relative_to(into)) not in names:
            path.unlink()


def build(tree, into):
    """The binaries of the copy. They are taken out of cargo's folder, where the next build puts others."""
    cargo = os.environ.get("BASALT_CARGO", "--package basalt-server --package basalt-storage").split()
    command = [
        "cargo",
        "test",
        "--locked",
        *cargo,
        "--lib",
        "--test",
        "it",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ]
    built = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        sys.exit("the planted bugs do not compile")
    wanted = {
        ("basalt", "server", False): "basalt",
        ("it", "server", True): "it",
        ("basalt_server", "server", True): "server",
        ("it", "storage", True): "storage",
    }
    into.mkdir(exist_ok=True)
    found = set()
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable"):
            folder = pathlib.Path(message["manifest_path"]).parent.name
            name = wanted.get((message["target"]["name"], folder, message["profile"]["test"]))
            if name:
                shutil.copy2(message["executable"], into / name)
                found.add(name)
    if missing := set(wanted.values()) - found:
        sys.exit(f"cargo has not built {missing}")


@dataclasses.dataclass
class Ran:
    found: bool
    said: str


class Trial:
    def __init__(self, tree, binaries, options):
        self.tree, self.binaries, self.options = tree, binaries, options
        self.printing = threading.Lock()

    def test(self, plant, binary, test, more=None, *flags):
        """Runs one test with a plant."""
        environment = os.environ | {"BASALT_PLANTED": plant, "BASALT": str(self.binaries / "basalt"), "RUST_BACKTRACE": "0"}
        command = [str(self.binaries / binary), *flags, "--exact", test, "--nocapture"]
        folder = self.tree / ("storage" if binary == "storage" else "server")
        # Whatever a test starts ends with it.
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment | (more or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            return Ran(True, "it does not end")
        output = output.decode(errors="replace")
        if "running 1 test" not in output:
            sys.exit(f"{binary} has no test {test}")
        return Ran(process.returncode != 0, said(output))

    def seeds(self, who):
        """Seeds; those of clusters that find each other by a name are every fourth."""
        n = self.options.seeds
        return range(3, 4 * n, 4) if who in (NAMED, NAMED_QUIET) else range(n)

    def seed(self, plant, who, seed):
        active = f"{plant},{ONE_WRITER}" if who in (QUIET, NAMED_QUIET) else plant
        return self.test(active, "server", "simulation::one", {"BASALT_SEED": str(seed)}, "--ignored")

    def crashes(self, plant, first, n):
        more = {"BASALT_CRASHES": str(n), "BASALT_FIRST_CRASH": str(first)}
        return self.test(plant, "it", "disk::crash::no_crash_at_any_call_loses_doubles_or_halves_anything", more)

    def look(self, plant, who):
        """Has one look for a plant: whether it is found, after how much, and what was said."""
        if who in SIMULATIONS:
            for n, seed in enumerate(self.seeds(who), 1):
                ran = self.seed(plant, who, seed)
                if ran.found:
                    return ran, f"{n} seed{'s' * (n > 1)}"
            return ran, f"{n} seeds"
        if who == CRASHED:
            for first in range(0, self.options.crashes, CRASHES_AT_ONCE):
                n = min(CRASHES_AT_ONCE, self.options.crashes - first)
                ran = self.crashes(plant, first, n)
                if ran.found:
                    number = re.search(r"crash (\d+),", ran.said)
                    n = int(number[1]) + 1 if number else first + 1
                    return ran, f"{n} crash{'es' * (n > 1)}"
            return ran, f"{self.options.crashes} crashes"
        if who == DAMAGED:
            more = {"BASALT_DAMAGES": str(self.options.damages)}
            return self.test(
                plant, "it", "disk::damage::no_damaged_file_makes_an_answer_wrong", more
            ), f"{self.options.damages} damages"
        binary, test = who.split(" ", 1)
        return self.test(plant, binary, test), "one test"

    def find(self, plant):
        """A row of the table, and whether the plant was found."""
        rows = []
        for who in plant.by:
            started = time.monotonic()
            ran, effort = self.look(",".join([plant.name, *plant.beside]), who)
            rows.append((who, effort, time.monotonic() - started, ran))
            if ran.found:
                break
        return rows

    def without(self):
        """Everything without a plant; what is found then."""
        simulations = sorted(self.used() & SIMULATIONS)
        tasks = [(self.seed, "none", who, seed) for who in simulations for seed in self.seeds(who)]
        if CRASHED in self.used():
            for first in range(0, self.options.crashes, CRASHES_AT_ONCE):
                tasks.append((self.crashes, "none", first, min(CRASHES_AT_ONCE, self.options.crashes - first)))
        if any(UNCOMPARED in plant.beside for plant in self.options.plants):
            tasks += [(self.seed, UNCOMPARED, SIMULATED, seed) for seed in self.seeds(SIMULATED)]
        others = self.used() - SIMULATIONS - {CRASHED}
        tasks += [(self.look, "none", who) for who in sorted(others)]
        wrong = []
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            running = {pool.submit(*task): task for task in tasks}
            for n, done in enumerate(concurrent.futures.as_completed(running), 1):
                ran = done.result()
                ran = ran[0] if isinstance(ran, tuple) else ran
                if ran.found:
                    wrong.append(f"{running[done][1:]}: {ran.said}")
                progress(f"without a plant: {n} of {len(tasks)}, {len(wrong)} found something")
        return wrong

    def used(self):
        return {who for plant in self.options.plants for who in plant.by}


def said(output):
    """What a test said that failed."""
    if wrong := re.search(r"^(?:seed|crash) \d+[:,] .*$", output, re.MULTILINE):
        return wrong[0]
    lines = output.splitlines()
    panics = [i for i, line in enumerate(lines) if " panicked at " in line]
    return " ".join(lines[panics[-1] + 1 : panics[-1] + 4]) if panics else ""


def progress(text, end=False):
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="\n" if end else "", file=sys.stderr, flush=True)
    elif end:
        print(text, file=sys.stderr, flush=True)


def main():
    parse = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parse.add_argument("--check", action="store_true", help="only that the plants fit the sources")
    parse.add_argument("--only", help="names of plants, with commas between")
    parse.add_argument("--seeds", type=int, default=60, help="seeds of the simulation for a plant, at most")
    parse.add_argument("--crashes", type=int, default=120, help="crashes for a plant, at most")
    parse.add_argument("--damages", type=int, default=200)
    parse.add_argument("--jobs", type=int, default=os.cpu_count())
    parse.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir(), "basalt-planted"))
    parse.add_argument("--built", action="store_true", help="looks in what was built there before, and not without a plant")
    options = parse.parse_args()

    texts, wrong = planted(ROOT)
    wrong += tests_missing(ROOT)
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(PLANTS)} planted bugs, {sum(bool(plant.cure) for plant in PLANTS)} of which were bugs")
    if options.check:
        return
    names = options.only.split(",") if options.only else [plant.name for plant in PLANTS]
    if unknown := set(names) - {plant.name for plant in PLANTS}:
        sys.exit(f"there is no plant {', '.join(sorted(unknown))}")
    options.plants = [plant for plant in PLANTS if plant.name in names]

    tree, binaries = options.folder / "tree", options.folder / "binaries"
    if not options.built:
        tree.mkdir(parents=True, exist_ok=True)
        copy(ROOT, tree, texts)
        build(tree, binaries)
    trial = Trial(tree, binaries, options)
    if not options.built:
        if wrong := trial.without():
            sys.exit("\n".join(["", "something is found where nothing is planted", *wrong]))
        progress("without a plant nothing is found", end=True)

    survived = []
    found = {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(trial.find, plant): plant for plant in options.plants}
        for n, done in enumerate(concurrent.futures.as_completed(running), 1):
            plant = running[done]
            found[plant.name] = done.result()
            who, effort, seconds, ran = found[plant.name][-1]
            if not ran.found:
                survived.append(plant.name)
            outcome = f"found by {who} after {effort}, {seconds:.0f} s: {ran.said[:160]}" if ran.found else "SURVIVED"
            progress(f"{n} of {len(options.plants)}: {plant.name} {outcome}", end=True)

    print("| bug | what is wrong | found by | after | s |\n|---|---|---|---|--:|")
    for plant in options.plants:
        for who, effort, seconds, ran in found[plant.name]:
            what = " ".join([plant.what, *(help.what for help in HELPS if help.name in plant.beside)])
            what += f" Cured by {plant.cure}." if plant.cure else ""
            outcome = who if ran.found else f"not by {who}"
            print(f"| {plant.name} | {what} | {outcome} | {effort} | {seconds:.0f} |")
    print(f"{len(options.plants) - len(survived)} of {len(options.plants)} were found")
    if survived:
        sys.exit(f"not found: {', '.join(survived)}")


if __name__ == "__main__":
    main()
