"""Memory bandwidth: a buffer beyond the caches and within what is free, and a figure."""

from __future__ import annotations

import pytest

from zcdb.host import membw

MIB = 1 << 20


@pytest.mark.parametrize(
    ("available", "cache", "expected"),
    [
        (64 << 30, 32 * MIB, 64 * MIB),
        (64 << 30, 96 * MIB, 192 * MIB),
        (64 << 30, 1024 * MIB, 256 * MIB),
        (512 * MIB, 32 * MIB, 32 * MIB),
        (None, None, 64 * MIB),
    ],
)
def test_the_buffer_is_beyond_the_caches_and_within_what_is_free(available, cache, expected):
    assert membw.buffer_bytes(available, cache) == expected


def test_too_little_memory_for_it_is_a_reason_not_a_figure(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemAvailable: 65536 kB\n")
    cache = tmp_path / "sys/devices/system/cpu/cpu0/cache/index3"
    cache.mkdir(parents=True)
    (cache / "size").write_text("32M")

    found = membw.measure(tmp_path)

    assert (found.read_bytes_per_s, found.write_bytes_per_s) == (None, None)
    assert "too little memory is free" in found.to_json()["reason"]


def test_this_machine_has_a_figure(monkeypatch):
    monkeypatch.setattr(membw, "buffer_bytes", lambda available, cache: 4 * MIB)
    monkeypatch.setattr(membw, "largest_cache_bytes", lambda root: None)

    found = membw.measure()

    assert found.read_bytes_per_s > 0
    assert found.write_bytes_per_s > 0
    assert found.reason is None


def test_the_best_pass_counts():
    steps = iter([0, 30, 100, 110, 200, 250])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(membw.time, "perf_counter_ns", lambda: next(steps))

        assert membw._best_ns(lambda: None) == 10
