"""The data dictionary: tables, where the registries are explained, and what can be taken along."""

from __future__ import annotations

from dataclasses import dataclass

from zcdb.factors import FACTORS
from zcdb.flags import FLAGS
from zcdb.metrics import METRICS
from zcdb.store.queries.dictionary import Schema, TableWords


@dataclass(frozen=True, slots=True)
class Registry:
    """Something that code declares, and where it is explained."""

    title: str
    entries: int
    address: str


@dataclass(frozen=True, slots=True)
class Download:
    """What can be taken along as a file."""

    title: str
    says: str
    csv: str
    json: str


@dataclass(frozen=True, slots=True)
class DataContent:
    """All that the page says."""

    revision: str
    registries: tuple[Registry, ...]
    downloads: tuple[Download, ...]
    tables: tuple[TableWords, ...]


DOWNLOADS = (
    Download("Cases", "with their figures; the filters of Explore apply", "/explore.csv",
             "/explore.json"),
    Download("Experiments", "with their questions", "/experiments.csv", "/experiments.json"),
    Download("Runs", "newest first", "/runs.csv", "/runs.json"),
    Download("Founding tables", "every cell, as stated and in today's units", "/history.csv",
             "/history.json"),
    Download("Sources", "documents and imported files", "/sources.csv", "/sources.json"),
    Download("Reports", "frozen comparisons", "/reports.csv", "/reports.json"),
    Download("Network cards", "what drivers can do", "/nics.csv", "/nics.json"),
    Download("Hosts", "by the salted hash of their name", "/hosts.csv", "/hosts.json"),
    Download("Kernels", "that results are from", "/kernels.csv", "/kernels.json"),
)  # fmt: skip


def data_content(schema: Schema) -> DataContent:
    """Return the content of the page."""
    return DataContent(
        schema.revision,
        (
            Registry("Metrics", len(METRICS), "/methods/metrics"),
            Registry("Factors", len(FACTORS), "/methods/factors"),
            Registry("Flags", len(FLAGS), "/methods/flags"),
        ),
        DOWNLOADS,
        schema.tables,
    )
