"""`zcdb nic scan`: what a kernel's source says of every Ethernet driver."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from zcdb.nics.facts import TreeFacts
    from zcdb.nics.scan import Progress


@click.command("scan")
@click.argument("tree", type=click.Path(path_type=Path))
@click.option("--kernel", metavar="VERSION", help="The tree's version; default: its Makefile's.")
@click.option("--driver", metavar="NAME", help="Scan one driver and print all its evidence.")
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="TREE",
    help="An older tree: list what changed since; exit 1 if something vanished unexplained.",
)
@click.option("--json", "as_json", is_flag=True, help="Print every capability as JSON.")
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where scanned drivers are remembered; default: the user's cache folder.",
)
@click.option("--no-cache", is_flag=True, help="Remember nothing.")
@click.option("--jobs", type=click.IntRange(1), help="Processes at once; default: all CPUs.")
def scan_command(
    tree: Path,
    kernel: str | None,
    driver: str | None,
    against: Path | None,
    as_json: bool,
    cache: Path | None,
    no_cache: bool,
    jobs: int | None,
) -> None:
    """Scan the Linux source in TREE and print what each Ethernet driver can do.

    TREE is a folder or a tarball. Every capability is yes, some (with what the
    condition tests), no or unknown, each with file and line. No source text is
    stored.

    \b
    Example:
        zcdb nic scan /usr/src/linux-source-6.12.tar.xz --driver igb
    """
    from zcdb.nics import catalogue, render
    from zcdb.nics.compare import compare, comparison_lines

    folder = None if no_cache else cache or _cache_folder()
    facts = _scan(tree, kernel, folder, jobs, driver)
    if against is not None:
        comparison = compare(_scan(against, None, folder, jobs, driver), facts)
        click.echo("\n".join(comparison_lines(comparison)))
        sys.exit(1 if comparison.lost(catalogue.load().acknowledged) else 0)
    if as_json:
        click.echo(json.dumps(render.tree_to_json(facts), indent=1, ensure_ascii=False))
    elif driver is not None:
        click.echo("\n".join(render.driver_lines(facts.drivers[driver], facts.kernel)))
    else:
        click.echo("\n".join(render.tree_lines(facts)))


def _cache_folder() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("zcdb")) / "nics"


def _scan(
    tree: Path, kernel: str | None, cache: Path | None, jobs: int | None, only: str | None
) -> TreeFacts:
    from zcdb.errors import UsageError

    try:
        from zcdb.nics.scan import open_tree, scan_tree
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("tree_sitter"):
            raise
        raise UsageError(
            f"the scanner needs {error.name}, which is not installed",
            hint="install zcdb with its extra: pip install 'zcdb[catalogue]'",
        ) from error
    with open_tree(tree) as root:
        return scan_tree(
            root, kernel=kernel, cache=cache, jobs=jobs, only=only, progress=_progress()
        )


def _progress() -> Progress | None:
    """Return what shows progress on stderr; nothing where nobody watches."""
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int, name: str) -> None:
        end = "\n" if done == total else ""
        click.echo(f"\r{done}/{total} drivers, {name:30}{end}", err=True, nl=False)

    return show
