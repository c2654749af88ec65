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


def test_a_forked_child_does_not_keep_a_lock_that_was_released(tmp_path):
    path = tmp_path / "lock"
    first = HostLock.acquire("first", path)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write_end)
        os.read(read_end, 1)  # until the parent goes on
        os._exit(0)

    first.release()
    second = HostLock.acquire("second", path)

    os.close(write_end)
    os.close(read_end)
    os.waitpid(child, 0)
    assert isinstance(second, HostLock)
    second.release()
