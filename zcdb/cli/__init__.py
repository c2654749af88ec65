"""The command line: one module a command group.

A command parses its arguments, calls one function of another room and prints
what comes back.  Nothing but click is imported here, and a command's module
only when that command runs: `zcdb --help` stays fast.
"""

from __future__ import annotations

import importlib
import sys

import click

from zcdb import __version__
from zcdb.errors import ZcdbError

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("zcdb.cli.run", "Measure an experiment and record every trial."),
    "rerun": ("zcdb.cli.rerun", "Measure a recorded result again, here, and show both."),
    "plan": ("zcdb.cli.plan", "Print what an experiment would do; run nothing."),
    "serve": ("zcdb.cli.serve", "Show the database as a web site."),
    "list": ("zcdb.cli.list", "List experiments, runs, cases and sources."),
    "show": ("zcdb.cli.show", "Show one run, case or trial."),
    "compare": ("zcdb.cli.compare", "Compare levels of a factor, cases or runs."),
    "report": ("zcdb.cli.report", "Freeze a comparison; list, show and verify reports."),
    "note": ("zcdb.cli.show", "Write a remark beside a run."),
    "soak": ("zcdb.cli.soak", "Measure CPU subtractively: live, around a command, or a self-test."),
    "probe": ("zcdb.cli.probe", "Say what this machine is and what it can run."),
    "import": ("zcdb.cli.import_", "Record what other tools printed."),
    "export": ("zcdb.cli.export", "Write results into a bundle, or the site into files."),
    "correct": ("zcdb.cli.errata", "Correct a figure; the old value stays beside it."),
    "contest": ("zcdb.cli.errata", "Write that a result is doubted."),
    "retract": ("zcdb.cli.errata", "Take a result back; its address says why."),
    "exclude": ("zcdb.cli.errata", "Leave a trial out of the statistics."),
    "restore": ("zcdb.cli.restore", "Put back settings that a killed run left changed."),
    "nic": ("zcdb.cli.nic", "Say what network cards and their drivers can do."),
    "db": ("zcdb.cli.db", "Upgrade, verify or rebuild the database."),
    "schema": ("zcdb.cli.plan", "Print the JSON Schema of experiment files."),
    "agent": ("zcdb.cli.agent", "Speak the agent protocol on stdin and stdout."),
}
"""Command name -> (module, one-line help).  The module has a click command of that name."""


class LazyGroup(click.Group):
    """A group that imports a command's module only when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        assert isinstance(command, click.Command)  # noqa: S101
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help) for name, (_, help) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="zcdb", message="zcdb %(version)s")
def cli() -> None:
    """Measure zero-copy networking, record every trial, compare and cite.

    Start with 'zcdb run' and then 'zcdb serve'.
    """


def main() -> None:
    """Run the command line; a `ZcdbError` becomes one sentence and its exit code."""
    try:
        code = cli.main(standalone_mode=False)
    except ZcdbError as error:
        click.echo(f"Error: {error.message}", err=True)
        if error.hint:
            click.echo(f"Hint: {error.hint}", err=True)
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo("Aborted.", err=True)
        sys.exit(1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of a pipe ('zcdb list | head') has seen enough.
        sys.stderr.close()
        sys.exit(0)
    else:
        # Without its standalone mode click returns the code that a command left by ctx.exit().
        sys.exit(code if isinstance(code, int) else 0)
