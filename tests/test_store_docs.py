"""The generated pages of docs/ are up to date."""

from __future__ import annotations

import importlib.machinery
import importlib.util
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


@pytest.mark.parametrize(("name", "make"), [("schema.md", "schema_text"), ("cli.md", "cli_text")])
def test_a_generated_page_is_up_to_date(
    generator: ModuleType, project_folder: Path, name: str, make: str
) -> None:
    stored = (project_folder / "docs" / name).read_text(encoding="utf-8")

    assert stored == getattr(generator, make)(), "run scripts/generate-docs"


def test_every_table_is_described(generator: ModuleType) -> None:
    text = generator.schema_text()

    for row_class in Base.__subclasses__():
        assert f"## {row_class.__tablename__}\n" in text
        assert row_class.__doc__
