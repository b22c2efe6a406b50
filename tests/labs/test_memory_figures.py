"""The figures of the lab memory: numbers that others have published, leaks that leak, and their mending that mends."""

import pytest

from dlojz import views
from dlojz.labs.memory import figures, leaks
from dlojz.system.errors import UsageError


def test_zero_as_in_its_paper():
    """Rajbhandari et al. 2020, figure 1: 7.5 billion parameters, 64 ranks."""
    assert [round(size / 1e9, 1) for size in figures.zero(7.5e9, 64).values()] == [120.0, 31.4, 16.6, 1.9]
    assert "31.4 GB" in repr(figures.zero_stages())


def test_the_budget_of_chinchilla():
    """Hoffmann et al. 2022, table 3: 67 billion parameters and 1.5 trillion tokens for 5.76e23 operations, about."""
    said = repr(figures.budget(67e9, tokens=1.5e12))
    assert "6.03e+23" in said
    assert "1,340 billion" in repr(figures.budget(67e9))
    # 6 x 1e9 x 20e9 operations at 40 % of 989.4 or 990 TFLOP/s
    assert f"{6 * 20e18 / (990e12 * 0.4) / 3600:.1f} on H100" in repr(figures.budget(1e9))
    assert "0.0084 on H100" in repr(figures.budget(1e7))
    with pytest.raises(UsageError, match="peak of 'V100' in bf16"):
        figures.budget(1e9, gpu="V100")


def test_segments():
    assert "8 segments keep least, 16 instead of 64" in repr(figures.segments(64))
    assert "1 segment keeps least" in repr(figures.segments(2))


@pytest.mark.parametrize("name", leaks.MENDED)
def test_loops_leak_until_they_are_mended(name):
    held, mended = figures.run(name), figures.run(name, mended=True)
    if name in "ab":
        assert held[-1] > 2 * held[0] and mended[-1] < 1.01 * mended[0]
    else:
        assert held[-1] > 1.3 * mended[-1]
    view = figures.leak(name, mended=True)
    assert leaks.MENDED[name][1] in repr(view) and "MB" in repr(view)


def test_the_example_is_a_snapshot():
    said = repr(views.snapshot(figures.example()))
    assert "lm.py(" in said and "GB of the peak" in said


def test_other_names_are_refused():
    with pytest.raises(UsageError, match="there is no technique 'Both': did you mean 'both'"):
        figures.techniques("Both")
    with pytest.raises(UsageError, match="there is no loop 'e'"):
        figures.leak("e")
