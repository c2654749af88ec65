"""`zcdb serve`: the database as a web site on this machine."""

from __future__ import annotations

import contextlib
import errno
import gc
import ipaddress
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from zcdb.errors import HostError, ZcdbError

if TYPE_CHECKING:
    from zcdb.store.session import Database

THREADS = 8


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def url(host: str, port: int) -> str:
    """Return the address to open in a browser; for "all addresses" the loopback one."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"http://[{shown}]:{port}/" if ":" in shown else f"http://{shown}:{port}/"


@dataclass(frozen=True)
class Site:
    """A listening server: `server.run()` answers requests until it is closed."""

    server: Any
    database_name: str
    address: str
    close: Callable[[], None]


def open_site(config: Mapping[str, Any], host: str, port: int) -> Site:
    """Listen on host and port with the site behind them.

    Args:
        config: what `webapp.create_app` takes.
        port: 0 takes a free one.

    Raises:
        HostError: if the port cannot be had, with what to do instead.
        StoreError, UsageError: if the database cannot be opened.
    """
    from waitress.server import create_server

    from zcdb.webapp import create_app

    listening = _listen(host, port)
    try:
        app = create_app(config)
    except ZcdbError:
        listening.close()
        raise
    server = create_server(app, sockets=[listening], threads=THREADS, ident="zcdb")
    database = app.extensions["zcdb"]
    threading.Thread(target=_warm, args=(database,), daemon=True).start()

    def close() -> None:
        server.close()
        database.dispose()

    address = url(host, listening.getsockname()[1])
    return Site(server, database.name, address, close)


def _warm(database: Database) -> None:
    """Read what the first readers would else wait for: the index of all cases, the catalogue.

    Both stay as long as the server, so Python need not go through them again in search of garbage:
    that would stop a page for a quarter of a second now and then.
    """
    from zcdb.nics import catalogue
    from zcdb.store.queries.index import case_index

    catalogue.load()
    # Who asks for a page is told what is wrong with the database; nobody reads it here.
    with contextlib.suppress(ZcdbError), database.reading() as session:
        case_index(database, session)
    gc.collect()
    gc.freeze()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise _listening_error(error, host, port) from error


def _listening_error(error: OSError, host: str, port: int) -> HostError:
    if error.errno == errno.EADDRINUSE:
        return HostError(
            f"port {port} of {host} is in use by another program",
            hint=f"Open {url(host, port)}, it may be zcdb already; else take another port: "
            f"'zcdb serve --port {port + 1}'.",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return HostError(
            f"port {port} of {host} may not be opened by this user",
            hint="Take a port from 1024 on, or leave out --port for 8750.",
        )
    return HostError(
        f"{host}:{port} cannot be served: {error.strerror or error}",
        hint="Leave out --host for 127.0.0.1; 'ip address' lists the others.",
    )


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=8750,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--database",
    metavar="FILE|URL",
    help="Database to show; by default $ZCDB_DATABASE, else the one 'zcdb run' writes.",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Also answer requests for this host name; may be repeated.",
)
def serve_command(host: str, port: int, database: str | None, names: tuple[str, ...]) -> None:
    """Show the database as a web site until Ctrl-C.

    Prints the address on stdout.  Reads the database and never writes results
    to it; runs that are recorded meanwhile appear on the next load.

    Example:
        zcdb serve --port 8800
    """
    config = {
        "DATABASE": database,
        "ALLOWED_HOSTS": (host, *names),
        # Whoever else reaches it may read, and keep short addresses; reports take room.
        "MAY_FREEZE": is_loopback(host),
    }
    site = open_site(config, host, port)
    if not is_loopback(host):
        click.echo(
            f"Warning: everybody who reaches {host} can read this database; there is no login.",
            err=True,
        )
    click.echo(f"zcdb serves {site.database_name} at")
    click.echo(site.address)
    click.echo("Stop with Ctrl-C.", err=True)
    try:
        site.server.run()
    finally:
        site.close()
