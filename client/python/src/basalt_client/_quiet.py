"""Imported before gRPC: its own lines of what a connection does are for those who ask for them."""

import os

# What goes wrong is told by the errors. gRPC reads this when it is imported, so this comes first.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
