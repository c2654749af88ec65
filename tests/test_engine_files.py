"""The working set: its arithmetic, and the files that hold it."""

from __future__ import annotations

import errno
import os

import pytest
from engine_support import pattern

from zcdb.engine import files
from zcdb.engine.tcpinfo import parse_tcp_info
from zcdb.errors import EngineError


def test_a_hot_working_set_is_one_message():
    assert files.extent_sizes("hot", 4096) == (4096,)


@pytest.mark.parametrize(
    ("size", "expected"), [(4096, 4096), (4097, 4096), (8191, 4096), (1 << 20, 1 << 20)]
)
def test_a_size_is_cut_to_whole_messages(size, expected):
    assert files.extent_sizes(size, 4096) == (expected,)


@pytest.mark.parametrize(("count", "mean"), [(1, 1), (2, 1), (3, 100), (63, 350_000), (64, 7)])
def test_the_files_of_a_set_have_the_stated_mean_and_lie_around_it(count, mean):
    sizes = files.extent_sizes(f"files={count};mean_size={mean};passes=1", 65536)

    assert len(sizes) == count
    assert sum(sizes) == count * mean
    assert mean / 2 <= min(sizes) <= mean <= max(sizes) <= mean * 3 / 2
    assert min(sizes) >= 1


@pytest.mark.parametrize(
    ("message_size", "buffers"), [(1, 1024), (65536, 64), (1 << 20, 4), (16 << 20, 2)]
)
def test_a_hot_pool_has_some_megabytes_and_at_least_two_buffers(message_size, buffers):
    assert files.pool_buffers(message_size) == buffers


def test_files_hold_the_pattern_one_after_another_and_are_cached(tmp_path):
    source = files.make_files([5000, 1, 3 * files.WRITE_BYTES + 5], str(tmp_path))
    contents = [file.readall() if file.seek(0) == 0 else b"" for file in source.files]
    share = source.cached_share()
    for file in source.files:
        file.close()

    assert b"".join(contents) == pattern(5000 + 1 + 3 * files.WRITE_BYTES + 5)
    assert share == 1.0


def test_files_have_no_name(tmp_path):
    source = files.make_files([10], str(tmp_path))

    assert list(tmp_path.iterdir()) == []
    source.files[0].close()


def test_the_cached_share_falls_when_the_kernel_drops_pages(tmp_path):
    source = files.make_files([100 * 4096, 4096], str(tmp_path))
    source.drop()
    dropped = source.cached_share()
    os.pread(source.descriptors[1], 4096, 0)
    read_again = source.cached_share()
    for file in source.files:
        file.close()

    if dropped == 1.0:
        pytest.skip("this file system keeps its pages (tmpfs)")
    assert dropped == 0.0
    assert read_again == pytest.approx(1 / 101)


@pytest.mark.parametrize(
    ("offset", "size", "pages"),
    [(0, 1, 1), (0, 4096, 1), (4095, 2, 2), (8192, 8192, 2), (1, 4096, 2)],
)
def test_bytes_lie_in_as_many_pages_as_they_touch(offset, size, pages):
    assert files.page_count(size, offset) == pages


def test_a_descriptor_that_cannot_be_mapped_is_an_os_error(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    with (tmp_path / "file").open("wb", buffering=0) as file:
        source = files.SourceFiles([file], [1], [0])
        with pytest.raises(PermissionError):
            source.cached_share()


def test_a_missing_folder_is_one_sentence_with_its_name():
    with pytest.raises(EngineError, match=r"cannot be made in /no/such: No such file") as caught:
        files.make_files([4096], "/no/such")

    assert "TMPDIR" in caught.value.hint


def test_a_full_disk_is_one_sentence_and_leaves_no_file_open(tmp_path, monkeypatch):
    def full(*_arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    monkeypatch.setattr(files.os, "write", full)

    with pytest.raises(EngineError, match=r"\(2, 8 KiB in all\) .*: No space left on device"):
        files.make_files([4096, 4096], str(tmp_path))

    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_too_many_files_point_to_the_limit_of_open_files(tmp_path, monkeypatch):
    def exhausted(*_arguments: object, **_named: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(files.tempfile, "TemporaryFile", exhausted)

    with pytest.raises(EngineError) as caught:
        files.make_files([1], str(tmp_path))

    assert "ulimit -n" in caught.value.hint


def test_tcp_info_fields_are_read_from_their_places():
    raw = bytearray(104)
    raw[16:20] = (1448).to_bytes(4, "little")
    raw[100:104] = (7).to_bytes(4, "little")

    assert parse_tcp_info(bytes(raw), ["snd_mss", "total_retrans"]) == {
        "snd_mss": 1448,
        "total_retrans": 7,
    }


def test_a_tcp_info_field_that_an_old_kernel_lacks_is_left_out():
    assert parse_tcp_info(bytes(100), ["snd_mss", "total_retrans"]) == {"snd_mss": 0}
