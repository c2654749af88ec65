"""`zcdb agent`: a host behind a pipe, started by `zcdb run`."""

from __future__ import annotations

import click


@click.command("agent")
def agent_command() -> None:
    """Speak the agent protocol on stdin and stdout until stdin ends.

    This is what 'zcdb run' starts at each end of a link; people have no use
    for it.
    """
    from zcdb.agent.server import serve

    serve()
