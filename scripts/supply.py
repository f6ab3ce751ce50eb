#!/usr/bin/env python3
"""What the binary `basalt` is made of, by Cargo.lock and cargo.

supply.py sbom [--features sql,otlp] [-o FILE]    a CycloneDX document: every crate with its licence, digest and dependencies
supply.py unsafe [--features sql,otlp]            where `unsafe` and native code stand, by crate; names those that
                                                  docs/unsafe-dependencies.md has not

Only what is linked counts: no build scripts, macros or tests. Python 3.11 is enough, without packages.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tomllib
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "unsafe-dependencies.md"
# From so many uses of `unsafe`, or lines of C and assembly, on a crate stands in the table.
MANY = 100
PACKAGE = re.compile(r"^(\d+)(\S+) v(\S+)(.*)$")


def cargo(*arguments):
    command = ["cargo", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def linked(features, target):
    """The crates that are linked, each with what it uses: {(name, version): {(name, version)}}, the server first."""
    of = ["--locked", "--package", "basalt-server", "--features", features, "--edges", "normal"]
    of += ["--target", target] if target else []
    graph, way = {}, []
    for line in cargo("tree", *of, "--prefix", "depth").splitlines():
        depth, name, version, rest = PACKAGE.match(line).groups()
        del way[int(depth) :]
        # A macro, and all below it, runs in the compiler.
        if None in way or "(proc-macro)" in rest:
            way.append(None)
            continue
        crate = (name, version)
        graph.setdefault(crate, set())
        if way:
            graph[way[-1]].add(crate)
        way.append(crate)
    return graph


def packages(target):
    """What cargo knows of each crate, and the digests of Cargo.lock."""
    if not target:
        version = subprocess.run(["rustc", "-vV"], check=True, stdout=subprocess.PIPE, text=True).stdout
        target = re.search("host: (.*)", version)[1]
    of = ["--locked", "--all-features", "--filter-platform", target]
    known = json.loads(cargo("metadata", *of, "--format-version", "1"))["packages"]
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    digests = {(entry["name"], entry["version"]): entry.get("checksum") for entry in lock["package"]}
    return {(package["name"], package["version"]): package for package in known}, digests


def licence(text):
    """As SPDX writes it: manifests of old have a slash for OR."""
    return re.sub(r"\s*/\s*", " OR ", text)


def sbom(features, target):
    graph = linked(features, target)
    known, digests = packages(target)

    def reference(crate):
        return f"pkg:cargo/{crate[0]}@{crate[1].replace('+', '%2B')}"

    def component(crate, kind):
        package, digest = known[crate], digests[crate]
        entry = {"type": kind, "bom-ref": reference(crate), "name": crate[0], "version": crate[1]}
        if package["description"]:
            entry["description"] = " ".join(package["description"].split())
        if digest:
            entry["hashes"] = [{"alg": "SHA-256", "content": digest}]
        if package["license"]:
            entry["licenses"] = [{"expression": licence(package["license"])}]
        # Ours are not in the registry.
        if package["source"]:
            entry["purl"] = reference(crate)
        if package["repository"]:
            entry["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
        return entry

    crates = list(graph)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": component(crates[0], "application"),
            "properties": [{"name": "basalt:features", "value": features}],
        },
        "components": [component(crate, "library") for crate in sorted(crates[1:])],
        "dependencies": [
            {"ref": reference(crate), "dependsOn": sorted(map(reference, uses))}
            for crate, uses in sorted(graph.items())
        ],
    }
    # The same for the same contents.
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        **document,
        "serialNumber": f"urn:uuid:{serial}",
    }


def count(folder):
    """How often `unsafe` stands in a crate's Rust, for all platforms, and how many lines of C and assembly it has."""
    uses = native = 0
    for path in folder.rglob("*"):
        top = path.relative_to(folder).parts[0]
        if top.startswith(("test", "bench", "example", "fuzz")) or not path.is_file():
            continue
        if path.suffix == ".rs":
            text = re.sub(r"//[^\n]*", "", path.read_text(errors="replace"))
            uses += len(re.findall(r"\bunsafe\b", text))
        elif path.suffix in (".c", ".cc", ".cpp", ".h", ".S", ".s", ".asm"):
            native += path.read_text(errors="replace").count("\n")
    return uses, native


def unsafe(features, target):
    known, _ = packages(target)
    rows = [line.split("|")[1] for line in TABLE.read_text().splitlines() if line.startswith("| `")]
    named = set(re.findall("`([^`]+)`", " ".join(rows)))
    counts = []
    for crate in linked(features, target):
        uses, native = count(pathlib.Path(known[crate]["manifest_path"]).parent) if known[crate]["source"] else (0, 0)
        counts.append((uses, native, *crate))
    for uses, native, name, version in sorted(counts, reverse=True):
        if uses or native:
            print(f"{uses:6} {native:8} {name} {version}")
    missing = {name for uses, native, name, _ in counts if uses >= MANY or native >= MANY} - named
    gone = named - {name for _, _, name, _ in counts}
    for problem, names in (("lacks", missing), ("has, though they are not linked:", gone)):
        if names:
            print(f"{TABLE.relative_to(ROOT)} {problem} {', '.join(sorted(names))}", file=sys.stderr)
    return 1 if missing or gone else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sbom", "unsafe"])
    parser.add_argument("--features", default="sql,otlp", help="of basalt-server (sql,otlp)")
    parser.add_argument("--target", help="another platform than this one")
    parser.add_argument("-o", "--output", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.what == "unsafe":
        return unsafe(arguments.features, arguments.target)
    text = json.dumps(sbom(arguments.features, arguments.target), indent=1) + "\n"
    if arguments.output:
        arguments.output.write_text(text)
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
