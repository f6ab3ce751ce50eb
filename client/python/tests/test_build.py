"""The build of the package."""

import importlib.util
import pathlib
import shutil
import sys
import types

import pytest


def test_a_folder_without_the_api_says_so(
    repository: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The builder is not there where the package is installed.
    interface = types.ModuleType("hatchling.builders.hooks.plugin.interface")
    interface.BuildHookInterface = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    path = shutil.copy(repository / "client/python/hatch_build.py", tmp_path)
    spec = importlib.util.spec_from_file_location("hatch_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hook = module.ProtoHook()
    hook.root = str(tmp_path)
    with pytest.raises(SystemExit, match="install from client/python in the whole repository"):
        hook.initialize("standard", {})
