"""Puts a server that is built already into the wheel, whose tag says where it runs.

BASALT_BINARY names the program. BASALT_SBOM may name its bill of materials (`scripts/supply.py sbom`), which goes
along.
"""

import os
import pathlib

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
# What each Linux with glibc has, by the rules of manylinux.
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1"}
LOADERS = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


class BinaryHook(BuildHookInterface):
    def initialize(self, version, build_data):
        if self.target_name != "wheel" or version == "editable":
            raise RuntimeError("there is a wheel alone: the sources are those of the repository")
        binary = os.environ.get("BASALT_BINARY")
        if not binary:
            raise RuntimeError("BASALT_BINARY must name the program that goes into the wheel")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform(pathlib.Path(binary))}"
        build_data["shared_scripts"][str(pathlib.Path(binary).resolve())] = "basalt"
        sbom = os.environ.get("BASALT_SBOM")
        if sbom:
            build_data["sbom_files"].append(str(pathlib.Path(sbom).resolve()))


def platform(binary):
    """The oldest Linux that has what a program needs, as `manylinux_2_31_x86_64`: by the symbols it takes of glibc."""
    with binary.open("rb") as file:
        try:
            elf = ELFFile(file)
        except ELFError as error:
            raise RuntimeError(f"{binary} is no program of Linux") from error
        machine = MACHINES.get(elf["e_machine"])
        if machine is None:
            raise RuntimeError(f"{binary} is for {elf['e_machine']}, for which there is no wheel")
        dynamic = elf.get_section_by_name(".dynamic")
        libraries = {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")} if dynamic else set()
        if "libc.so.6" not in libraries or libraries - SYSTEM - LOADERS:
            raise RuntimeError(f"{binary} needs {sorted(libraries)}, not glibc and what comes with it alone")
        needs = elf.get_section_by_name(".gnu.version_r")
        names = [version.name for _, versions in needs.iter_versions() for version in versions]
    glibc = max(tuple(map(int, name[6:].split("."))) for name in names if name.startswith("GLIBC_2."))
    return f"manylinux_{glibc[0]}_{glibc[1]}_{machine}"
