"""An FTP download: vsftpd serves a file, with or without sendfile, and curl drops it.

The server has a port, a configuration and a folder in memory of its own, lets
nobody write, and answers on the link's address only.  Its sandbox is off: the
list of system calls that it allows is older than today's C library.
"""

from __future__ import annotations

from zcdb.tools.files import file_bytes, refuse_file_sets
from zcdb.tools.model import PRIVATE_FOLDER, Job, Program, Tool, ToolOptions

SERVER = Program("vsftpd", "Debian's package vsftpd")
CLIENT = Program("curl", "Debian's package curl", ("--version",))
FILE = "file"
DOWNLOADS = 64
"""Of the same file with one login; then curl is run again."""


def _server(options: ToolOptions, port: int) -> Job:
    first, last = options.port_range or (0, 0)
    is_ipv6 = ":" in options.own_address
    lines = {
        "listen": "NO" if is_ipv6 else "YES",
        "listen_ipv6": "YES" if is_ipv6 else "NO",
        "listen_address6" if is_ipv6 else "listen_address": options.own_address,
        "listen_port": port,
        "background": "NO",
        "anonymous_enable": "YES",
        "no_anon_password": "YES",
        "local_enable": "NO",
        "write_enable": "NO",
        "anon_root": f"{PRIVATE_FOLDER}/data",
        "secure_chroot_dir": f"{PRIVATE_FOLDER}/empty",
        "use_sendfile": "YES" if options.factors["api"] == "sendfile" else "NO",
        "pasv_min_port": first,
        "pasv_max_port": last,
        "xferlog_enable": "NO",
        "seccomp_sandbox": "NO",
    }
    configuration = "".join(f"{key}={value}\n" for key, value in lines.items())
    return Job(
        ("vsftpd", f"{PRIVATE_FOLDER}/vsftpd.conf"),
        "none",
        port=port,
        is_server=True,
        needs_private_folder=True,
        files={
            "vsftpd.conf": configuration,
            "empty/": "",
            f"data/{FILE}": file_bytes(options.factors),
        },
    )


def _client(options: ToolOptions, port: int) -> Job:
    host = f"[{options.address}]" if ":" in options.address else options.address
    return Job(
        (
            *("curl", "--silent", "--show-error", "--fail-early", "--output", "/dev/null"),
            *("--write-out", "%{stderr}%{size_download} bytes %{speed_download} bytes/s\\n"),
            # What follows the # is not sent: one name, asked for many times.
            f"ftp://{host}:{port}/{FILE}#[1-{DOWNLOADS}]",
        ),
        "written",
        port=port,
        is_repeated=True,
    )


TOOL = Tool(
    "vsftpd",
    server_end="sender",
    apis=("sendfile", "read_write"),
    heeds=frozenset({"working_set", "address_family"}),
    programs={"sender": (SERVER,), "receiver": (CLIENT,)},
    server=_server,
    client=_client,
    refuses=refuse_file_sets,
    needs_root=True,
)
