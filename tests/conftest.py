"""Fixtures that more than one room's tests use."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the tests' salt and database away from the user's own."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("ZCDB_STATE", str(folder))
    monkeypatch.setenv("ZCDB_DATABASE", str(folder / "zcdb.sqlite"))


@pytest.fixture(scope="session")
def project_folder() -> Path:
    """The checkout."""
    return Path(__file__).resolve().parent.parent
