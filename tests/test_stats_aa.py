"""False alarms among identical cases."""

from __future__ import annotations

import importlib.util
import random

import pytest
from scipy import stats as scipy_stats

from zcdb.stats.aa import false_alarms, proportion_interval
from zcdb.stats.compare import Comparison, compare_paired
from zcdb.store.results import RunCase, Series, Statistic


@pytest.fixture(scope="module")
def benchmark(request):
    path = request.config.rootpath / "benchmarks" / "method.py"
    spec = importlib.util.spec_from_file_location("benchmarks_method", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_simulated_null_comparisons_alarm_in_5_of_100(benchmark):
    """Real plans, runner and statistics over values with noise, drift and a part of the block."""
    alarms = benchmark.simulated(2000)

    assert alarms.comparisons == 2000
    assert alarms.rate == pytest.approx(0.05, abs=0.01)


def test_null_comparisons_are_disjoint_pairs_of_whole_groups_of_blocks(benchmark):
    def twin(number, values):
        statistic = Statistic("throughput", "", len(values), 1.0, *[None] * 5)
        series = Series(tuple(values), frozenset(), statistic)
        factors = {"api": "write", "twin": number}
        return RunCase(str(number), factors, None, {}, 10, 0, 0, (), {}, (series,))

    noise = random.Random(1)
    cases = [twin(number, [noise.gauss(1, 0.01) for _ in range(10)]) for number in (3, 0, 1, 2)]

    compared = benchmark.null_comparisons(cases, "throughput", "")

    assert [comparison.n_candidate for comparison in compared] == [5, 5, 5, 5]


def with_p(p: float | None) -> Comparison:
    return Comparison("paired", 5, 5, 0.0, 0.1, 4, p)


def test_alarms_are_counted_unadjusted_and_untested_pairs_left_out():
    result = false_alarms([with_p(0.01), with_p(0.05), with_p(0.2), with_p(None)])

    assert (result.comparisons, result.alarms) == (3, 2)
    assert result.rate == pytest.approx(2 / 3)
    assert not result.is_amber


@pytest.mark.parametrize(
    ("alarms", "comparisons", "is_amber"), [(4, 40, False), (5, 40, True), (9, 39, False)]
)
def test_more_than_a_tenth_of_forty_or_more_is_amber(alarms, comparisons, is_amber):
    family = [with_p(0.01)] * alarms + [with_p(0.5)] * (comparisons - alarms)

    assert false_alarms(family).is_amber is is_amber


def test_without_comparisons_there_is_no_rate():
    assert false_alarms([]).rate is None


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (10, 10), (5, 100), (1, 40)])
def test_the_interval_of_a_rate_agrees_with_scipy(successes, n):
    expected = scipy_stats.binomtest(successes, n).proportion_ci(method="exact")

    assert proportion_interval(successes, n) == pytest.approx((expected.low, expected.high))


def test_impossible_proportions_are_refused():
    with pytest.raises(ValueError, match="3 of 2 is no proportion"):
        proportion_interval(3, 2)


def test_identical_cases_raise_about_five_alarms_in_a_hundred():
    """Ten thousand seeded comparisons on noise that is the same for both."""
    generator = random.Random(41)

    result = false_alarms(
        [
            compare_paired(
                [generator.lognormvariate(0, 0.1) for _ in range(5)],
                [generator.lognormvariate(0, 0.1) for _ in range(5)],
            )
            for _ in range(10_000)
        ]
    )

    assert 0.04 <= result.rate <= 0.06
    assert result.low < 0.05 < result.high
    assert not result.is_amber
