"""Compiles proto/basalt/v1 into the descriptors that the package reads its messages from."""

import pathlib
import shutil
import tempfile

from grpc_tools import protoc
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILED = "basalt_client/_proto/basalt.binpb"


class ProtoHook(BuildHookInterface):
    """Runs with every build of a wheel, in the repository and in an unpacked source archive."""

    def initialize(self, version, build_data):
        root = pathlib.Path(self.root)
        places = [root / "proto", *(parent / "proto" for parent in root.parents[1:2])]
        proto = next((place for place in places if (place / "basalt" / "v1").is_dir()), None)
        if proto is None:
            # A folder that was copied out of the repository alone.
            looked = " nor ".join(str(place / "basalt" / "v1") for place in places)
            how = "install from client/python in the whole repository, or copy its folder proto into this one"
            raise SystemExit(f"basalt-client needs the files of the API, and there is no {looked}: {how}")
        if version == "editable":
            # Such an installation reads the source tree, so the descriptors go there; git ignores them.
            compile_to(root / "src" / COMPILED, proto)
            return
        self.work = pathlib.Path(tempfile.mkdtemp())
        compiled = self.work / "basalt.binpb"
        compile_to(compiled, proto)
        build_data["force_include"][str(compiled)] = COMPILED

    def finalize(self, version, build_data, artifact_path):
        if version != "editable":
            shutil.rmtree(self.work)


def compile_to(target, proto):
    files = sorted(str(path) for path in (proto / "basalt" / "v1").glob("*.proto"))
    arguments = ["protoc", f"-I{proto}", "--include_imports", f"--descriptor_set_out={target}", *files]
    if protoc.main(arguments) != 0:
        raise RuntimeError(f"protoc did not compile {proto}")
