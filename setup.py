"""Build of the C hot loops; everything else about the package is in pyproject.toml."""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from setuptools import setup
from setuptools.command.build_ext import build_ext

HELP = """
zcdb builds a small C module and needs a C compiler and Python's headers.
Missing here: {missing}.

    Debian, Ubuntu:  apt install gcc libc6-dev python3-dev
    Fedora, RHEL:    dnf install gcc python3-devel

Or set ZCDB_NO_NATIVE=1 to install without it (reports work, measuring does not).
"""


class BuildExt(build_ext):
    """Build the extension, or say in one paragraph what is missing for it."""

    def run(self) -> None:
        """Check for a compiler and for Python.h before the compiler's own error hides them."""
        missing = []
        compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
        if not any(shutil.which(name) for name in (compiler, "gcc", "cc")):
            missing.append(f"a C compiler ({compiler})")
        folders = {sysconfig.get_path("include"), sysconfig.get_path("platinclude")}
        # Debian splits the headers over two folders; both names have to be found somewhere.
        if not all(
            any((Path(folder) / name).is_file() for folder in folders)
            for name in ("Python.h", "pyconfig.h")
        ):
            missing.append("Python.h")
        if missing:
            sys.exit(HELP.format(missing=" and ".join(missing)))
        super().run()


setup(
    cffi_modules=(
        [] if os.environ.get("ZCDB_NO_NATIVE") == "1" else ["zcdb/engine/build.py:ffibuilder"]
    ),
    cmdclass={"build_ext": BuildExt},
)
