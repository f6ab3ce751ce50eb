"""What scripts/check-metrics does."""

import atexit
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families

ROOT = pathlib.Path(__file__).parent.parent
DASHBOARDS = sorted((ROOT / "deploy/grafana/dashboards").glob("*.json"))
# Those that no series has by itself: Prometheus adds them, or a function reads them.
ADDED = {"job", "instance", "le"}
CODES = """Ok Cancelled Unknown InvalidArgument DeadlineExceeded NotFound AlreadyExists PermissionDenied ResourceExhausted
    FailedPrecondition Aborted OutOfRange Unimplemented Internal Unavailable DataLoss Unauthenticated""".split()


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def start(basalt, folder):
    """A cluster of two nodes that has answered something; the addresses of their metrics."""
    ports = free_ports(6)
    grpc, peers, metrics = ports[:2], ports[2:4], ports[4:]
    for node in range(2):
        command = [basalt, "serve", "--store", str(folder / "store"), "--listen", f"127.0.0.1:{grpc[node]}"]
        command += ["--peer-listen", f"127.0.0.1:{peers[node]}", "--metrics-listen", f"127.0.0.1:{metrics[node]}"]
        command += ["--peers", ",".join(f"127.0.0.1:{port}" for port in peers), "--log", "warn"]
        command += ["--cache", str(folder / f"cache{node}")]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        atexit.register(process.kill)

    def run(node, *arguments, check=True):
        command = [basalt, "--server", f"http://127.0.0.1:{grpc[node]}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        if check and done.returncode:
            raise SystemExit(f"{arguments}: {done.stdout}{done.stderr}")
        return done

    for node in range(2):
        for _ in range(600):
            if run(node, "health", check=False).returncode == 0:
                break
            time.sleep(0.05)
        else:
            raise SystemExit("the nodes do not start")
    file = folder / "t.csv"
    file.write_text("id,v\n" + "".join(f"{i},{i % 7}\n" for i in range(10_000)))
    run(0, "load", "t", str(file))
    run(1, "query", "SELECT v, count(*) AS n FROM t WHERE id IN (SELECT id FROM t WHERE v > 3) GROUP BY v")
    run(1, "query", "SELECT count(*) FROM no_table", check=False)
    run(0, "delete", "t", "--where", "v = 1")
    return [f"http://127.0.0.1:{port}/metrics" for port in metrics]


def get(url, accept=None):
    request = urllib.request.Request(url, headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def queries():
    """Every query of the dashboards and the alerts, with where it stands."""
    for file in DASHBOARDS:
        dashboard = json.loads(file.read_text())
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                yield f"{file.name}: {panel['title']}", target["expr"]
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()
                yield f"{file.name}: ${variable['name']}", f"count by ({label}) ({metric})"
        for annotation in dashboard["annotations"]["list"]:
            yield f"{file.name}: {annotation['name']}", annotation["expr"]
    alerts = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())
    for group in alerts["groups"]:
        for rule in group["rules"]:
            yield f"alerts.yml: {rule['alert']}", rule["expr"]


def check_queries(series):
    """`series`: the labels of each, by the names of samples."""
    code = "".join(path.read_text() for path in (ROOT / "server/src/access").glob("*.rs"))
    proto = (ROOT / "proto/basalt/v1/error.proto").read_text()
    known_values = {
        "method": set(re.findall(r'"(\w+)", Action::', code)) | {"postgres", "unread"},
        "code": set(CODES),
        "reason": set(re.findall(r"ERROR_REASON_(\w+) =", proto)),
    }
    asked = 0
    for where, query in queries():
        for name, matchers in re.findall(r"\b(basalt_\w+)(?:\{([^}]*)\})?", query):
            asked += 1
            assert name in series, f"{where} asks for {name}, which no server tells"
            for label, value in re.findall(r'(\w+)\s*[!=]=?~?\s*"([^"]*)"', matchers):
                assert label in series[name] | ADDED, f"{where}: {name} has no label {label!r}"
                known = known_values.get(label)
                wrong = set(value.split("|")) - known if known else set()
                assert not wrong, f"{where}: {label} is never {wrong}"
        for labels in re.findall(r"\b(?:by|on|without|ignoring)\s*\(([\w, ]+)\)", query):
            wrong = set(labels.replace(" ", "").split(",")) - ADDED - set().union(*series.values())
            assert not wrong, f"{where}: no series has the label {wrong}"
    assert asked > 60, f"{asked} names: are they still found?"
    return asked


def check_syntax(promtool, folder):
    """Queries of dashboards, as rules, with something in the place of variables."""
    rules = []
    for _, query in queries():
        for variable, value in [("$__rate_interval", "1m"), ("$node", "node1")]:
            query = query.replace(variable, value)
        rules.append({"record": f"check:{len(rules)}", "expr": query})
    file = folder / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "check", "rules": rules}]}))
    subprocess.run([promtool, "check", "rules", str(file)], check=True, stdout=subprocess.DEVNULL)


def main():
    folder = pathlib.Path(sys.argv[2])
    urls = start(sys.argv[1], folder)
    promtool = shutil.which("promtool")
    series, nodes = {}, {}
    for url in urls:
        for accept in (None, "*/*", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"):
            kind, text = get(url, accept)
            assert kind == "application/openmetrics-text; version=1.0.0; charset=utf-8", f"{accept}: {kind}"
        for family in text_string_to_metric_families(text):
            assert family.documentation, f"{family.name} has no help"
            for sample in family.samples:
                series.setdefault(sample.name, set()).update(sample.labels)
                nodes.setdefault(url, set()).add(sample.labels.get("node"))
    # What a series says is of one node is, without a rule that says so in its place.
    assert len(nodes) == 2 and all(len(of) == 1 and None not in of for of in nodes.values()), nodes
    assert len(set.union(*nodes.values())) == 2, nodes
    asked = check_queries(series)
    print(f"OpenMetrics: {len(series)} names; dashboards and alerts ask for some {asked} times, all of them there")
    if promtool:
        check_syntax(promtool, folder)
    for url in urls:
        kind, text = get(url, "text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
        assert kind == "text/plain; version=0.0.4; charset=utf-8", f"text/plain: {kind}"
        if promtool:
            told = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
            assert told.returncode == 0, f"promtool check metrics: {told.stdout}{told.stderr}"
    print(f"Prometheus' text format: as it should be{'' if promtool else ' as far as is seen without promtool'}")


main()
