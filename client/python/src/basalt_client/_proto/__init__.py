"""The messages, enumerations and methods of proto/basalt/v1, by their names: `_proto.QueryRequest`.

They are made from descriptors, which the build compiles, and not from `_pb2.py` modules: those refuse every protobuf
runtime that is older than their generator or two major versions newer, so that a program that has to keep another
version could not have the client. The pool is the client's own: a program may have stubs of the API beside it, also of
another version.
"""

from collections.abc import Callable
from importlib import resources
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "basalt.v1"


class Method(NamedTuple):
    """One method of a service, as channels want it."""

    path: str
    serialize: Callable[[Any], bytes]
    parse: Callable[[bytes], Any]


def _load() -> tuple[dict[str, Any], dict[str, Method]]:
    compiled = resources.files(__name__).joinpath("basalt.binpb").read_bytes()
    files = descriptor_pb2.FileDescriptorSet.FromString(compiled)
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    names = [file.name for file in files.file]
    classes = message_factory.GetMessageClassesForFiles(names, pool)
    found: dict[str, Any] = {name.removeprefix(f"{PACKAGE}."): message for name, message in classes.items()}
    methods = {}
    for name in names:
        described = pool.FindFileByName(name)
        for enum in described.enum_types_by_name.values():
            found |= {value.name: value.number for value in enum.values}
            found[enum.name] = enum
        for service in described.services_by_name.values():
            for method in service.methods:
                request, answer = classes[method.input_type.full_name], classes[method.output_type.full_name]
                path = f"/{service.full_name}/{method.name}"
                found_method = Method(path, request.SerializeToString, answer.FromString)
                methods[f"{service.name}.{method.name}"] = found_method
    return found, methods


_FOUND, METHODS = _load()


def __getattr__(name: str) -> Any:
    try:
        return _FOUND[name]
    except KeyError:
        raise AttributeError(f"{PACKAGE} has no {name}") from None
