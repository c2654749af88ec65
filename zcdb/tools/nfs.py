"""Reading a file over NFSv4: nfs-ganesha serves it, libnfs' nfs-cat reads it.

The server needs no kernel NFS, has a port, a configuration and a folder in
memory of its own, and serves nothing but one file.  The client reads the whole
file again and again and drops it; what it wrote to /dev/null is the payload,
so no byte of the protocol is in it.  How much the client asks for at once is
bounded by what the server says that it takes at most.
"""

from __future__ import annotations

from zcdb.factors import Factors
from zcdb.tools.files import file_bytes, refuse_file_sets
from zcdb.tools.model import PRIVATE_FOLDER, Job, Program, Tool, ToolOptions

SERVER = Program("ganesha.nfsd", "Debian's packages nfs-ganesha and nfs-ganesha-vfs", ("-v",))
CLIENT = Program("nfs-cat", "Debian's package libnfs-utils")

CLIENT_LIMIT_BYTES = 1 << 20
"""nfs-cat asks for so much at most, and if nothing else is said."""

SERVER_MINIMUM_BYTES = 512
FILE = "file"
EXPORT = "/exp"

_CONFIGURATION = """\
NFS_CORE_PARAM {{
    Protocols = 4;
    NFS_Port = {port};
    Bind_addr = {address};
    Enable_NLM = false;
    Enable_RQUOTA = false;
    Enable_UDP = false;
}}
NFSv4 {{
    Graceless = true;
    RecoveryRoot = "{folder}/state";
}}
EXPORT {{
    Export_Id = 1;
    Path = "{folder}/data";
    Pseudo = "{export}";
    Access_Type = RO;
    Squash = Root_Squash;
    SecType = sys;
    Protocols = 4;
    Transports = TCP;
    {limits}
    FSAL {{ Name = VFS; }}
}}
"""


def _server(options: ToolOptions, port: int) -> Job:
    rsize = options.factors.get("rsize")
    configuration = _CONFIGURATION.format(
        port=port,
        address=options.own_address,
        folder=PRIVATE_FOLDER,
        export=EXPORT,
        limits=f"MaxRead = {rsize}; PrefRead = {rsize};" if rsize else "",
    )
    argv = ("ganesha.nfsd", "-F", "-f", f"{PRIVATE_FOLDER}/ganesha.conf")
    return Job(
        # Events are what it says of itself when it fails.
        (*argv, "-L", "STDERR", "-p", f"{PRIVATE_FOLDER}/pid", "-N", "NIV_EVENT"),
        "none",
        port=port,
        is_server=True,
        needs_private_folder=True,
        files={
            "ganesha.conf": configuration,
            "state/": "",
            f"data/{FILE}": file_bytes(options.factors),
        },
    )


def _client(options: ToolOptions, port: int) -> Job:
    rsize = int(options.factors.get("rsize") or CLIENT_LIMIT_BYTES)
    return Job(
        ("nfs-cat", f"nfs://{options.address}{EXPORT}/{FILE}?version=4&nfsport={port}"),
        "written",
        port=port,
        is_repeated=True,
        effective={"rsize": rsize},
    )


def _refuses(factors: Factors) -> str | None:
    if (reason := refuse_file_sets(factors)) is not None:
        return reason
    rsize = factors.get("rsize")
    if rsize and not SERVER_MINIMUM_BYTES <= int(rsize) <= CLIENT_LIMIT_BYTES:
        return (
            f"rsize must be from {SERVER_MINIMUM_BYTES} to {CLIENT_LIMIT_BYTES} bytes here, not"
            f" {rsize}: nfs-cat asks for no more at once, nfs-ganesha takes no less"
        )
    return None


TOOL = Tool(
    "nfs",
    server_end="sender",
    apis=("nfs_read",),
    heeds=frozenset({"rsize", "working_set"}),
    programs={"sender": (SERVER,), "receiver": (CLIENT,)},
    server=_server,
    client=_client,
    refuses=_refuses,
    needs_root=True,
)
