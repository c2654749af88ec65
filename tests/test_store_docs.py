"""The generated pages of docs/ are up to date."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from zcdb.store.models import Base


@pytest.fixture(scope="module")
def generator(project_folder: Path) -> ModuleType:
    path = str(project_folder / "scripts" / "generate-docs")
    loader = importlib.machinery.SourceFileLoader("generate_docs", path)
    spec = importlib.util.spec_from_loader("generate_docs", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_the_generated_pages_are_up_to_date(project_folder: Path) -> None:
    # In a process of its own: click keeps the help option of a command's first context.
    result = subprocess.run(
        [sys.executable, project_folder / "scripts" / "generate-docs", "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert result.returncode == 0, result.stderr


def test_every_table_is_described(generator: ModuleType) -> None:
    text = generator.schema_text()

    for row_class in Base.__subclasses__():
        assert f"## {row_class.__tablename__}\n" in text
        assert row_class.__doc__
