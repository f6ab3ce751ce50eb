"""The server of Basalt as a program: ``basalt`` on the PATH, ``python -m basalt_server``, or by its path from here."""

import os
import sys
import sysconfig


def binary() -> str:
    """The path of the program ``basalt``, for tests and scripts that start a server of their own."""
    schemes = [sysconfig.get_default_scheme() if sys.version_info >= (3, 10) else None, f"{os.name}_user"]
    folders = [sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts") for scheme in schemes]
    # `pip install --target` has it beside the package.
    folders.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"))
    for folder in folders:
        path = os.path.join(folder, "basalt")
        if os.path.isfile(path):
            return path
    raise FileNotFoundError(f"the program basalt is not in {', '.join(folders)}")
