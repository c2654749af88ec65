"""The C module, or one sentence why it is not there.

It is imported late, because zcdb can be installed without it (reports work,
measuring does not).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zcdb.errors import EngineError

if TYPE_CHECKING:
    from zcdb.engine._hot import _Ffi, _Lib


def native() -> tuple[_Ffi, _Lib]:
    """Return cffi's `ffi` and `lib` of the hot loops.

    Raises:
        EngineError: if the module was not built or does not fit this Python.
    """
    try:
        from zcdb.engine._hot import ffi, lib
    except ImportError as error:
        raise EngineError(
            f"the C module zcdb.engine._hot cannot be loaded ({error})",
            hint="install zcdb again with a C compiler present and without ZCDB_NO_NATIVE;"
            " in a checkout 'make' builds it",
        ) from None
    return ffi, lib
