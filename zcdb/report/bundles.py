"""Bundles: results in one file that another database takes in under the same ids.

A bundle is a ZIP file of NDJSON members, the texts that results were read from, and a manifest
with the size and the SHA-256 of every member.  Nothing in it says when or where it was made: the
same content is the same file, byte by byte.  Its last 64 bytes are the SHA-256 of all before, so
that a changed byte is noticed wherever it is.  What the members hold is the business of
`zcdb.store.bundle_read` and `bundle_write`; here are the file and its hashes.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from zcdb import factors
from zcdb.errors import UsageError, ZcdbError
from zcdb.factors import FactorValue
from zcdb.ids import Json, canonical_json
from zcdb.store import queries
from zcdb.store.bundle_read import TEXTS, members
from zcdb.store.bundle_select import Selection, select_all, select_matching, select_thing
from zcdb.store.bundle_write import BundleWriter
from zcdb.store.session import Database

SCHEMA_VERSION = 1
"""Form of the members: raise it when a line says something that version 1 cannot."""

MANIFEST = "manifest.json"
EVERYTHING = "all"

_SEAL = b"zcdb bundle, sha256 "
_DIGITS = 64
_MAGIC = b"PK\x03\x04"
_CHUNK_BYTES = 1 << 20
_DATE = (1980, 1, 1, 0, 0, 0)
"""The earliest moment of ZIP: when a bundle was made is no content."""

_LEVEL = 6
_PRESENTATION = ("rows", "cols", "m", "after")
"""Parameters of /explore that choose no cases."""

_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error),
    *(EOFError, KeyError, NotImplementedError, OSError, RuntimeError, ValueError),
)
"""What `zipfile` raises for a damaged file; tests change bytes of one all over.

RuntimeError: a flag says that it is encrypted.  NotImplementedError: another way of packing.
OSError and ValueError: a place before the beginning of the file.  KeyError: a name that is gone.
"""

Progress = Callable[[str, int], None]
"""Told the member that is worked on and its bytes so far."""


class BundleError(ZcdbError):
    """A bundle that cannot be made or taken in."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member as the manifest has it.

    Attributes:
        lines: of NDJSON; None for a text as it came.
    """

    name: str
    bytes: int
    lines: int | None
    sha256: str


@dataclass(frozen=True, slots=True)
class Exported:
    """A bundle that was written.

    Attributes:
        id: hash of its manifest, and so of its content.
    """

    id: str
    size_bytes: int
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Imported:
    """What a bundle brought: kind of thing -> how many were new, and how many were there."""

    id: str
    new: Mapping[str, int]
    known: Mapping[str, int]


# -- writing ------------------------------------------------------------------------------------


def export(db: Database, what: str, path: Path, progress: Progress | None = None) -> Exported:
    """Write everything that belongs to what is asked for into one file.

    Args:
        db: where to read.
        what: "all", an id or its beginning, a query of /explore ("api=write&link=veth"), or the
            address of either.
        path: the file; it is whole or not there.
        progress: told how far it is.

    Raises:
        UsageError: if `what` makes no sense.
        BundleError: if nothing fits, or the file cannot be written.
        zcdb.store.queries.NotFound: if there is no such thing.
    """
    with db.reading() as session:
        if what == EVERYTHING:
            chosen = select_all(session)
        elif query := _query_of(what):
            chosen = select_matching(db, session, *_filters(query))
        else:
            found = queries.find(db, _id_of(what))
            chosen = select_thing(session, found.kind, found.id)
        if not _holds_anything(chosen):
            raise BundleError(
                f"nothing in {db.name} fits {what!r}",
                hint="/explore shows what is there, 'zcdb list' the ids.",
            )
        return write_bundle(path, members(session, chosen), progress)


def write_bundle(
    path: Path, named: Iterator[tuple[str, Iterator[bytes]]], progress: Progress | None = None
) -> Exported:
    """Write members, in the order of `bundle_read.members`, as a bundle.

    Raises:
        BundleError: if the file cannot be written.
    """
    try:
        with _replacing(path) as file:
            return _write(file, named, progress)
    except OSError as error:
        raise BundleError(f"{path} cannot be written: {error.strerror or error}") from error


def _query_of(what: str) -> str:
    """Return the query of what was asked for; "" if it is an id."""
    if "?" in what:
        return what.partition("?")[2]
    return what if "=" in what else ""


def _id_of(what: str) -> str:
    """Return the id in an address, or the text itself."""
    parts = urlsplit(what).path.strip("/").split("/")
    return unquote(parts[1] if len(parts) > 1 else parts[0]).partition(".")[0]


def _filters(query: str) -> tuple[dict[str, list[FactorValue]], list[str]]:
    """Return the filters and the words of a query of /explore."""
    filters: dict[str, list[FactorValue]] = {}
    words: list[str] = []
    for name, text in parse_qsl(query, keep_blank_values=False):
        if name == "q":
            words += text.split()
        elif name not in _PRESENTATION:
            filters.setdefault(name, []).append(_value(name, text))
    return filters, words


def _value(name: str, text: str) -> FactorValue:
    if factors.find(name) is None:
        near = difflib.get_close_matches(name, factors.FACTORS, 1)
        raise UsageError(
            f"there is no factor {name!r}",
            hint=f"Did you mean {near[0]}?" if near else "'zcdb schema' lists the factors.",
        )
    try:
        return factors.normalise_published(name, text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error


def _holds_anything(chosen: Selection) -> bool:
    parts = (chosen.experiments, chosen.runs, chosen.cases, chosen.sources, chosen.reports)
    return any(parts) or bool(chosen.environments)


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """Give a file that takes the place of `path` when it is complete."""
    with tempfile.NamedTemporaryFile(dir=path.absolute().parent, delete=False) as file:
        made = Path(file.name)
        try:
            yield file
            file.flush()
            made.chmod(0o644)
            made.replace(path)
        finally:
            made.unlink(missing_ok=True)


def _write(
    file: IO[bytes], named: Iterator[tuple[str, Iterator[bytes]]], progress: Progress | None
) -> Exported:
    written = []
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        for name, pieces in named:
            member = _write_member(archive, name, pieces, progress)
            if member is not None:
                written.append(member)
        manifest = manifest_of(written)
        _write_member(archive, MANIFEST, iter([manifest]), None)
        archive.comment = _SEAL + b"0" * _DIGITS
    file.flush()
    size_bytes = file.tell()
    seal = _digest(file, size_bytes - _DIGITS)
    file.seek(size_bytes - _DIGITS)
    file.write(seal.encode())
    return Exported(_bundle_id(manifest), size_bytes, tuple(written))


def _write_member(
    archive: zipfile.ZipFile, name: str, pieces: Iterator[bytes], progress: Progress | None
) -> Member | None:
    """Write one member; an NDJSON member without a line is left out."""
    first = next(pieces, None)
    if first is None:
        return None
    info = zipfile.ZipInfo(name, _DATE)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = 3  # as on Linux, wherever it is made
    info.external_attr = 0o644 << 16
    digest, size_bytes, lines = hashlib.sha256(), 0, 0
    with archive.open(info, "w", force_zip64=True) as member:
        piece: bytes | None = first
        while piece is not None:
            digest.update(piece)
            member.write(piece)
            size_bytes, lines = size_bytes + len(piece), lines + 1
            if progress and lines % 500 == 0:
                progress(name, size_bytes)
            piece = next(pieces, None)
    is_ndjson = name.endswith(".ndjson")
    return Member(name, size_bytes, lines if is_ndjson else None, digest.hexdigest())


def manifest_of(written: list[Member]) -> bytes:
    """Return the manifest of a bundle with these members."""
    content: dict[str, Json] = {
        "zcdb_bundle": SCHEMA_VERSION,
        "members": [
            {
                "name": member.name,
                "bytes": member.bytes,
                "lines": member.lines,
                "sha256": member.sha256,
            }
            for member in written
        ],
    }
    return (canonical_json(content) + "\n").encode()


def _bundle_id(manifest: bytes) -> str:
    return hashlib.sha256(manifest).hexdigest()[:32]


def _digest(file: IO[bytes], until: int) -> str:
    """Return the SHA-256 of the first bytes of a file."""
    digest = hashlib.sha256()
    file.seek(0)
    while until > 0 and (chunk := file.read(min(_CHUNK_BYTES, until))):
        digest.update(chunk)
        until -= len(chunk)
    return digest.hexdigest()


# -- reading ------------------------------------------------------------------------------------


def is_bundle(path: Path) -> bool:
    """Tell whether a file may be a bundle: it begins as ZIP files do, or ends as bundles do."""
    try:
        with path.open("rb") as file:
            begins = file.read(len(_MAGIC)) == _MAGIC
            size_bytes = file.seek(0, 2)
            file.seek(max(0, size_bytes - _DIGITS - len(_SEAL)))
            return begins or file.read().startswith(_SEAL)
    except OSError:
        return False  # who reads it as something else says why it cannot


def import_bundle(db: Database, path: Path, progress: Progress | None = None) -> Imported:
    """Take a bundle into a database: all of it or, if anything is wrong, nothing.

    Importing it again changes nothing.

    Args:
        db: where to write.
        path: the bundle.
        progress: told how far it is.

    Raises:
        BundleError: if it is none, of a newer zcdb, or a byte of it was changed.
        StoreError: if it contradicts what is stored.
    """
    with _opened(path) as bundle, db.writing() as session:
        writer = BundleWriter(session)
        for member in bundle.members:
            try:
                if member.name.startswith(TEXTS):
                    digest = member.name.removeprefix(TEXTS)
                    writer.add_text(digest, b"".join(bundle.chunks(member, progress)))
                else:
                    writer.add(member.name, _lines(bundle.chunks(member, progress)))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise BundleError(
                    f"{path}: {member.name} holds what no bundle holds ({error!r})"
                ) from error
        writer.finish()
        return Imported(bundle.id, dict(writer.new), dict(writer.known))


def check(path: Path) -> Exported:
    """Check every hash of a bundle and return what is in it; nothing is imported.

    Raises:
        BundleError: if it is no bundle, of a newer zcdb, or a byte of it was changed.
    """
    with _opened(path) as bundle:
        for member in bundle.members:
            for _ in bundle.chunks(member, None):
                pass
        return Exported(bundle.id, path.stat().st_size, bundle.members)


class _Bundle:
    """An open bundle whose manifest was read."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, manifest: bytes) -> None:
        self._path = path
        self._archive = archive
        self.id = _bundle_id(manifest)
        self.members = _members_of(path, manifest)

    def chunks(self, member: Member, progress: Progress | None) -> Iterator[bytes]:
        """Yield the bytes of a member; after the last one its hash is checked.

        Raises:
            BundleError: naming the member, if it is not what the manifest says.
        """
        digest, size_bytes = hashlib.sha256(), 0
        try:
            with _open(self._archive, member.name) as file:
                while size_bytes <= member.bytes and (chunk := file.read(_CHUNK_BYTES)):
                    digest.update(chunk)
                    size_bytes += len(chunk)
                    if progress:
                        progress(member.name, size_bytes)
                    yield chunk
        except _DAMAGE as error:
            raise changed(self._path, member.name) from error
        if (size_bytes, digest.hexdigest()) != (member.bytes, member.sha256):
            raise changed(self._path, member.name)


def _open(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """Open a member, which is compressed in the one way that bundles are."""
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_DEFLATED:
        raise zipfile.BadZipFile(f"{name} is compressed in another way")
    return archive.open(info)


def changed(path: Path, member: str) -> BundleError:
    """Return the error about a member that is not what the manifest says."""
    return BundleError(
        f"{path}: {member} was changed since the bundle was made",
        hint="Nothing was imported; get the file again from where it came.",
    )


@contextmanager
def _opened(path: Path) -> Iterator[_Bundle]:
    """Open a bundle; check its version, and that no byte of it was changed."""
    try:
        with path.open("rb") as file:
            size_bytes = file.seek(0, 2)
            file.seek(max(0, size_bytes - _DIGITS))
            seal = file.read()
            is_whole = _digest(file, size_bytes - _DIGITS).encode() == seal
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        archive = zipfile.ZipFile(path)
    except _DAMAGE as error:
        raise BundleError(
            f"{path} is not a bundle, or not a whole one",
            hint="Get the file again from where it came.",
        ) from error
    with archive:
        bundle = _Bundle(path, archive, _manifest(path, archive))
        if not is_whole:
            for member in bundle.members:
                for _ in bundle.chunks(member, None):
                    pass
            raise changed(path, "what holds its members together")
        yield bundle


def _manifest(path: Path, archive: zipfile.ZipFile) -> bytes:
    if MANIFEST not in archive.namelist() and not archive.comment.startswith(_SEAL):
        raise BundleError(f"{path} is a ZIP file, but not a bundle of zcdb")
    try:
        with _open(archive, MANIFEST) as file:
            return file.read()
    except _DAMAGE as error:
        raise changed(path, MANIFEST) from error


def _members_of(path: Path, manifest: bytes) -> tuple[Member, ...]:
    """Return the members that a manifest lists.

    Raises:
        BundleError: if it is of a newer zcdb, or makes no sense.
    """
    try:
        content: dict[str, Any] = json.loads(manifest)
        version = int(content["zcdb_bundle"])
        if version > SCHEMA_VERSION:
            raise BundleError(
                f"{path} is a bundle of a newer zcdb (version {version}; this zcdb reads up to"
                f" {SCHEMA_VERSION})",
                hint="Upgrade zcdb.",
            )
        listed = tuple(Member(**member) for member in content["members"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise changed(path, MANIFEST) from error
    for member in listed:
        text = member.name.removeprefix(TEXTS)
        is_text = text != member.name and re.fullmatch(r"[0-9a-f]{64}", text) is not None
        if not is_text and not member.name.endswith(".ndjson"):
            raise changed(path, MANIFEST)
        if is_text and text != member.sha256:
            raise changed(path, member.name)
    return listed


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    if rest:
        yield rest
