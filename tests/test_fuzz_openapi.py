"""Every operation of the API's own description, with requests made from that description.

A bounded slice with a fixed seed; `ZCDB_FUZZ_EXAMPLES=1000` asks each operation more, each time
otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from site_support import write_site

from zcdb.report import freeze
from zcdb.store.session import open_database
from zcdb.webapp import create_app

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def api_schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    db = open_database(tmp_path_factory.mktemp("api") / "api.sqlite")
    write_site(db)
    freeze.freeze(db, "axis=api&a=write&b=sendfile", "frozen")
    app = create_app({"DATABASE": db, "PROPAGATE_EXCEPTIONS": True})
    yield schemathesis.openapi.from_wsgi("/api/v1/openapi.json", app)
    db.dispose()


SLICE = settings(
    max_examples=int(os.environ.get("ZCDB_FUZZ_EXAMPLES", "12")),
    derandomize="ZCDB_FUZZ_EXAMPLES" not in os.environ,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def test_every_operation_answers_as_it_is_described(api_schema):
    asked = 0
    for result in api_schema.get_all_operations():
        operation = result.ok()

        @SLICE
        @given(case=operation.as_strategy())
        def answers_as_described(case):
            # The WSGI transport unpacks nothing.
            case.call_and_validate(checks=CHECKS, headers={"Accept-Encoding": "identity"})

        answers_as_described()
        asked += 1
    assert asked > 30
