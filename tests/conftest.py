"""Fixtures that more than one room's tests use."""

from __future__ import annotations

from pathlib import Path

import pytest

ALONE = (
    *("test_agent_", "test_bench", "test_cgroups", "test_cli_run", "test_cli_soak"),
    *("test_engine_", "test_execute", "test_host_links", "test_hosts_ssh", "test_links_"),
    *("test_membw", "test_memory_limit", "test_nic_probe", "test_perf", "test_preflight"),
    *("test_probe", "test_settings_net", "test_settings_system", "test_soak", "test_tools_"),
    "test_window",
)
"""How the names of files begin whose tests need the clocks and CPUs of the machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs while no other test does; see `scripts/run-tests`."""
    for item in items:
        if item.path.name.startswith(ALONE):
            item.add_marker(pytest.mark.measures)


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
