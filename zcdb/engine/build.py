"""How the C module `zcdb.engine._hot` is built.

cffi reads the `*_api.h` files as they are, so the border between C and Python
is written once; every other C file here is compiled into the same module.
Only the build imports this module.
"""

from pathlib import Path

from cffi import FFI

HERE = Path(__file__).parent

headers = sorted(HERE.glob("*_api.h"))
sources = sorted(path for path in HERE.glob("*.c") if path.name != "_hot.c")

ffibuilder = FFI()
for header in headers:
    ffibuilder.cdef(header.read_text())
ffibuilder.set_source(
    "zcdb.engine._hot",
    "#include <stddef.h>\n#include <stdint.h>\n#include <sys/types.h>\n"
    + "".join(f'#include "{header.name}"\n' for header in headers),
    sources=[str(path) for path in sources],
    include_dirs=[str(HERE)],
    depends=[str(path) for path in sorted(HERE.glob("*.h"))],
    extra_compile_args=["-std=gnu11", "-O2"],
    py_limited_api=True,
)
