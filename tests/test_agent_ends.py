"""What an agent holds: one endpoint an end."""

from __future__ import annotations

import pytest

from zcdb.agent.ends import HeldEnds
from zcdb.errors import EngineError


class Endpoint:
    """Notes that it was killed."""

    def __init__(self):
        self.kills = 0

    def kill(self):
        self.kills += 1

    def reading(self):
        return {"payload_bytes": 7}


def test_a_new_endpoint_takes_the_place_of_the_old_one_which_is_killed():
    ends, old, new = HeldEnds(), Endpoint(), Endpoint()
    ends.keep("sender", old)

    ends.keep("sender", new)

    assert ends.get("sender") is new
    assert (old.kills, new.kills) == (1, 0)


def test_killing_ends_every_endpoint_once_and_leaves_none():
    ends, endpoints = HeldEnds(), {"sender": Endpoint(), "receiver": Endpoint()}
    for end, endpoint in endpoints.items():
        ends.keep(end, endpoint)
    readers = ends.readers()

    ends.kill()
    ends.kill()

    assert readers["sender"]() == {"payload_bytes": 7}
    assert [endpoint.kills for endpoint in endpoints.values()] == [1, 1]
    with pytest.raises(EngineError, match="no receiver was started on this host"):
        ends.get("receiver")


def test_an_endpoint_that_has_ended_is_forgotten_without_a_kill():
    ends, endpoint = HeldEnds(), Endpoint()
    ends.keep("sender", endpoint)

    ends.forget("sender")

    assert endpoint.kills == 0
    assert ends.readers() == {}
