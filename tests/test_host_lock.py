"""One run measures on a host at a time."""

from __future__ import annotations

import os

from zcdb.host.lock import HostLock


def test_a_second_asker_is_told_who_holds_the_lock(tmp_path):
    path = tmp_path / "lock"
    first = HostLock.acquire("run of quickstart, pid 7", path)

    second = HostLock.acquire("another", path)

    assert isinstance(first, HostLock)
    assert second == "run of quickstart, pid 7"
    first.release()


def test_a_released_lock_can_be_taken_and_a_second_release_does_nothing(tmp_path):
    path = tmp_path / "lock"
    first = HostLock.acquire("first", path)
    assert isinstance(first, HostLock)

    first.release()
    first.release()
    second = HostLock.acquire("second", path)

    assert isinstance(second, HostLock)
    second.release()


def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path):
    path = tmp_path / "lock"
    pid = os.fork()
    if pid == 0:
        HostLock.acquire("dead soon", path)
        os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)

    taken = HostLock.acquire("next", path)

    assert isinstance(taken, HostLock)
    taken.release()
