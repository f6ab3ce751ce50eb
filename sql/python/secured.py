"""A server with TLS and keys, as `basalt secure` and `basalt key new` make them, for the checks of its doors."""

import json
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Secured:
    """A table `t` of three rows and a table `secret`; an admin, and a reader of `t` alone."""

    def __init__(self, binary, folder):
        self.secrets = Path(folder) / "secrets"
        subprocess.run([binary, "secure", self.secrets], check=True, stdout=subprocess.DEVNULL)
        self.ca = str(self.secrets / "ca.pem")
        self.admin = (self.secrets / "admin.secret").read_text().strip()
        new = [binary, "key", "new", "reader", "--role", "reader", "--table", "t", "--file", self.secrets / "keys.toml"]
        self.reader = subprocess.run(new, check=True, capture_output=True, text=True).stdout.strip()
        ports = [free_port() for _ in range(3)]
        self.clients, self.http, self.postgres = (f"127.0.0.1:{port}" for port in ports)
        self.postgres_port = ports[2]
        serve = [binary, "serve", "--store", "memory:", "--secrets", self.secrets, "--listen", self.clients]
        serve += ["--audit-log", self.secrets / "audit.log", "--metrics-listen", self.http, "--postgres", self.postgres, "--log", "error"]
        self.process = subprocess.Popen(serve)
        self.tls = ssl.create_default_context(cafile=self.ca)
        for _ in range(300):
            try:
                if self.get("/readyz")[0] == 200:
                    break
            except OSError:
                pass
            time.sleep(0.1)
        for table in ("t", "secret"):
            statement = f"CREATE TABLE {table} AS SELECT * FROM (VALUES (1), (2), (3)) v(a)"
            status, answer = self.post(statement, self.admin)
            assert status == 200, answer

    def get(self, path, key=None, body=None, scheme="Bearer"):
        headers = {"Content-Type": "application/sql"} | ({"Authorization": f"{scheme} {key}"} if key else {})
        request = urllib.request.Request(f"https://{self.http}{path}", body, headers)
        try:
            with urllib.request.urlopen(request, context=self.tls) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def audit(self):
        return [json.loads(line) for line in (self.secrets / "audit.log").read_text().splitlines()]

    def post(self, sql, key=None):
        return self.get("/v1/sql", key, sql.encode())

    def close(self):
        self.process.terminate()
        assert self.process.wait(timeout=60) == 0
