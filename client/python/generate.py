#!/usr/bin/env python3
"""Generates the Python stubs of proto/basalt/v1 beside this file, as basalt/v1/*_pb2*.py."""

import pathlib
import sys

from grpc_tools import protoc

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parents[1] / "proto"


def main():
    files = sorted(str(path) for path in (PROTO / "basalt" / "v1").glob("*.proto"))
    return protoc.main(["protoc", f"-I{PROTO}", f"--python_out={HERE}", f"--grpc_python_out={HERE}", *files])


if __name__ == "__main__":
    sys.exit(main())
