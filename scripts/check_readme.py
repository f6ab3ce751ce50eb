"""What scripts/check-readme does: python3 check_readme.py BASALT FOLDER DATA [WORD...], or check_readme.py --links."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BOOK = ROOT / "docs/src"
# Its statements are run by the tests, of which scripts/reference makes it.
REFERENCE = BOOK / "sql/reference"
# What is made smaller here than a reader would want it. Each is there at least once.
SMALLER = [("--scale 1 ", "--scale 0.01 "), ("--rate 2000 --duration 30s", "--rate 50 --duration 2s --rows 100000")]
# Pages that load the flights themselves: README.md all of them, the tutorial, which does it again and again, a few. All others
# begin with the tables that README.md has loaded.
FIRST, FEW = "README.md", "docs/src/tutorial.md"
SECONDS = 240

# The files that the pages call the reader's own.
FILES = {
    "events.csv": "at,what\n2013-07-04T10:00:00Z,old\n2999-07-04T10:00:00Z,new\n",
    "customers.csv": "id,name\n1,Ada\n2,Edgar\n",
    "orders.csv": "id,customer,price\n1,2,9.99\n2,1,0.50\n",
    "prices.csv": "item,price\nnut,0.05\nbolt,0.10\n",
}

# A person waits for a server that has just been started.
WRAPPER = """#!/usr/bin/env bash
[[ $1 == serve ]] && exec BASALT "$@"
for _ in $(seq 100); do
    errors=$(mktemp)
    status=0
    BASALT "$@" 2>"$errors" || status=$?
    [[ $status != 0 ]] && grep -qE "no connection to|not ready:|[(]STARTING[)]" "$errors" && sleep 0.1 && continue
    break
done
cat "$errors" >&2
exit "$status"
"""

# Runs the blocks of a page that are Python, one after the other, in one interpreter.
INTERPRETER = """
import contextlib, sys, traceback
known = {"__name__": "page"}
for line in sys.stdin:
    block, out = line.split()
    status = "ok"
    with open(out, "w") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        try:
            exec(compile(open(block).read(), block, "exec"), known)
        except BaseException:
            traceback.print_exc()
            status = "failed"
    print(status, flush=True)
"""


def is_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_prefix():
    """Two digits that stand for the pages' 77."""
    ends = [0, 2, 5, 10, 11, 20, 21, 30, 31]
    return next(p for p in range(21, 65) if all(is_free(p * 100 + end) for end in ends))


def blocks(text):
    """All blocks: the first line's number, the tag, the lines, and whether a comment says that they are not run."""
    before, block = "", None
    for number, line in enumerate(text.splitlines(), 1):
        if block is None and line.startswith("```"):
            block = (number + 1, line[3:], [], before.startswith("<!-- check-readme: not run, "))
        elif line == "```":
            yield block
            block, before = None, ""
        elif block is not None:
            block[2].append(line)
        elif line:
            before = line
    assert block is None, f"a block that is not closed, from line {block}"


def is_whole(command):
    done = subprocess.run(["bash", "-n"], check=False, input=command, text=True, capture_output=True)
    return done.returncode == 0 and not done.stderr and not command.endswith("\\")


def steps(text):
    """What is run: the line, the tag, and the text, of the shell command by command."""
    for number, tag, lines, left_out in blocks(text):
        if left_out or tag not in ("sh", "python", "sql"):
            continue
        if tag != "sh":
            yield number, tag, "\n".join(lines)
            continue
        command = []
        for i, line in enumerate(lines):
            command.append(line)
            # A line that is a comment alone belongs to the command behind it.
            is_comment = all(part.startswith("#") or not part for part in command)
            if not is_comment and is_whole("\n".join(command)):
                yield number + i + 1 - len(command), tag, "\n".join(command)
                command = []
        assert not any(command), f"line {number}: not a whole command: {command}"


def bytes_of(number, unit):
    return float(number) * {"B": 1, "kB": 1e3, "MB": 1e6}[unit]


def differences(command, printed):
    """What its comments say and it does not print."""
    printed = re.sub(r"(?<=\d),(?=\d)", "", printed)
    for comment in re.findall(r"(?:^|\s)# (.*)$", command, re.M):
        comment = re.sub(r"(?<=\d),(?=\d)", "", comment)
        for phrase, number in re.findall(r"((\d+) rows(?: loaded| replaced)?)", comment):
            wanted = phrase if phrase.endswith("d") else number
            yield None if re.search(rf"(?<!\d){wanted}\b", printed) else phrase
        for number, unit in re.findall(r"\b([\d.]+) (B|kB|MB)\b", comment):
            size = bytes_of(number, unit)
            sizes = [bytes_of(*found) for found in re.findall(r"(?<![\d.])([\d.]+) (B|kB|MB)\b", printed)]
            # A size depends a little on which small fragments were merged meanwhile.
            yield None if any(abs(found - size) <= size / 10 for found in sizes) else f"{number} {unit}"


class Runner:
    def __init__(self, basalt, work, data):
        self.basalt, self.work = basalt, work
        self.compared, self.commands = 0, 0
        (work / "bin").mkdir()
        (work / "bin/basalt").write_text(WRAPPER.replace("BASALT", basalt))
        (work / "bin/basalt").chmod(0o755)
        (work / "interpreter.py").write_text(INTERPRETER)
        for name, content in FILES.items():
            (work / name).write_text(content)
        # COPY follows no symbolic links.
        for folder in "data", "few":
            shutil.copytree(data, work / folder)
        with open(data / "flights.csv") as flights, open(work / "few/flights.csv", "w") as few:
            few.writelines(line for i, line in enumerate(flights) if i % 60 == 0)
        self.make_delta_table()

    def environment(self, prefix):
        address = f"127.0.0.1:{prefix}00"
        kept = {k: v for k, v in os.environ.items() if not k.startswith("BASALT_")}
        return kept | {"PATH": f"{self.work / 'bin'}:{os.environ['PATH']}", "BASALT_SERVER": f"http://{address}",
                       "BASALT_LISTEN": address, "BASALT_LOG": "warn", "NO_COLOR": "1", "TMPDIR": str(self.work)}

    def make_delta_table(self):
        """A table of another writer, which is Basalt too."""
        environment = self.environment(free_prefix()) | {"BASALT_STORE": str(self.work / "theirs")}
        server = subprocess.Popen([self.basalt, "serve"], env=environment, cwd=self.work)
        try:
            subprocess.run([self.work / "bin/basalt", "load", "prices", "prices.csv"], env=environment, cwd=self.work,
                           check=True, capture_output=True)
        finally:
            server.terminate()
            server.wait()
        self.delta = next((self.work / "theirs/tables").iterdir())

    def prepare(self, name, folder):
        for part in "run", "out", "blocks":
            (folder / part).mkdir(parents=True)
        for file in FILES:
            shutil.copy(self.work / file, folder / "run" / file)
        for file in (self.work / ("few" if name == FEW else "data")).glob("*.csv"):
            (folder / "run" / file.name).hardlink_to(file)
        shutil.copytree(self.delta, folder / "run/delta/prices")
        (folder / "run/deploy").symlink_to(ROOT / "deploy")
        if name not in (FIRST, FEW):
            shutil.copytree(self.work / FIRST / "run/basalt-data", folder / "run/basalt-data")

    def run(self, name, text):
        """Runs a page; what went wrong, as texts."""
        started, folder, prefix = time.monotonic(), self.work / name, free_prefix()
        for large, small in SMALLER:
            text = text.replace(large, small)
        for host in ["127.0.0.1", "0.0.0.0", "localhost"]:
            text = text.replace(f"{host}:77", f"{host}:{prefix}")
        found = list(steps(text))
        if not found:
            return []
        self.prepare(name, folder)
        script = ["set -euo pipefail"]
        if any(tag == "python" for _, tag, _ in found):
            script += [f"mkfifo {folder}/in {folder}/told",
                       f"{sys.executable} {self.work}/interpreter.py <{folder}/in >{folder}/told 2>{folder}/errors &",
                       f"exec 8>{folder}/in 9<{folder}/told"]
        for number, tag, block in found:
            script.append(f"echo {number} > {folder}/step")
            out = f"{folder}/out/{number}"
            if tag == "sh":
                script += ["{", block, f"}} > {out} 2>&1"]
                continue
            (folder / f"blocks/{number}").write_text(block)
            if tag == "sql":
                script.append(f"basalt sql --file {folder}/blocks/{number} > {out} 2>&1")
            else:
                script += [f"echo {folder}/blocks/{number} {out} >&8", "read -r status <&9", "[[ $status == ok ]]"]
        shell = subprocess.Popen(["bash", "-c", "\n".join(script)], env=self.environment(prefix), cwd=folder / "run",
                                 stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            status = shell.wait(SECONDS)
        except subprocess.TimeoutExpired:
            status = f"more than {SECONDS} seconds"
        finally:
            # The servers are of its process group.
            os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()

        known = {number: block for number, _, block in found}
        printed = lambda number: (folder / f"out/{number}").read_text(errors="replace")
        if status != 0:
            number = int((folder / "step").read_text())
            return [f"{name}:{number}: {status}\n{known[number]}\n{printed(number)}"]
        wrong = []
        for number, tag, block in found:
            for phrase in differences(block, printed(number)) if tag == "sh" and name != FEW else []:
                self.compared += 1
                if phrase:
                    wrong.append(f"{name}:{number}: {phrase!r} is not what it prints\n{block}\n{printed(number)}")
        self.commands += len(found)
        print(f"{name}: {len(found)} commands, {time.monotonic() - started:.0f} s", flush=True)
        return wrong


def documents():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, check=True,
                            capture_output=True, text=True)
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).exists()]


def prose(text):
    """A document without its code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M))


def anchors(path):
    """The names that a code host and mdBook give to the headings of a document."""
    found = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.S | re.M), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def wrong_links():
    """Links that lead nowhere, in all documents of the repository."""
    count = 0
    for path in documents():
        name = path.relative_to(ROOT)
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(path.read_text())):
            if re.match(r"[a-z]+:", target):
                continue
            count += 1
            file, _, anchor = target.partition("#")
            goal = (path.parent / file).resolve() if file else path
            if not goal.exists():
                yield f"{name}: {target} is not there"
            elif not goal.is_relative_to(ROOT):
                yield f"{name}: {target} is not in the repository"
            elif anchor and goal.suffix == ".md" and anchor not in anchors(goal):
                yield f"{name}: {target} has no such heading"
    if count < 100:
        yield f"only {count} links were found"


def wrong_names():
    """Pages that the book leaves out, settings that no page has, Rust that no test compiles."""
    listed = set(re.findall(r"\]\(([^)]+\.md)\)", (BOOK / "SUMMARY.md").read_text()))
    for path in BOOK.rglob("*.md"):
        if path.name != "SUMMARY.md" and str(path.relative_to(BOOK)) not in listed:
            yield f"{path.relative_to(ROOT)} is not in SUMMARY.md"
    configuration = (BOOK / "operations/configuration.md").read_text()
    for key in re.findall(r"^#? ?([a-z_]+) = ", (ROOT / "deploy/config.toml").read_text(), re.M):
        if f"`{key}`" not in configuration:
            yield f"docs/src/operations/configuration.md has no `{key}`"
    compiled = (ROOT / "server/tests/it/readme.rs").read_text()
    for path in [ROOT / FIRST, *BOOK.rglob("*.md")]:
        for number, tag, lines, _ in blocks(path.read_text()):
            if tag == "rust" and "\n".join(lines) not in compiled:
                yield f"{path.relative_to(ROOT)}:{number}: no test compiles this (server/tests/it/readme.rs)"


def main():
    wrong = [*wrong_links(), *wrong_names()]
    if sys.argv[1:] == ["--links"]:
        sys.exit("\n".join(wrong) or print(f"{len(documents())} documents: their links lead somewhere"))
    basalt, work, data = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    words = sys.argv[4:]
    run = [ROOT / FIRST, *(path for path in sorted(BOOK.rglob("*.md")) if path.parent != REFERENCE)]
    pages = {str(path.relative_to(ROOT)): path.read_text() for path in run}
    for large, _ in SMALLER:
        assert any(large in text for text in pages.values()), f"no page has {large!r} any longer"
    started, runner = time.monotonic(), Runner(basalt, work, data)
    for name, text in pages.items():
        if not words or name == FIRST or any(word in name for word in words):
            wrong += runner.run(name, text)
        if wrong and name == FIRST:
            break
    if wrong:
        sys.exit("\n".join(wrong))
    assert words or runner.compared >= 5, f"only {runner.compared} figures were found"
    print(f"{runner.commands} commands run, {runner.compared} figures compared, {time.monotonic() - started:.0f} s")


main()
