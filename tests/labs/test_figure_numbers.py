"""The numbers of a figure: what can't be drawn is said in one line, before torch says it with a traceback."""

import importlib
import inspect

import pytest

from dlojz.labs import catalogue
from dlojz.labs.batches import reading
from dlojz.labs.profiler import figures
from dlojz.system.errors import UsageError
from dlojz.ui import tables

MODULES = [*(importlib.import_module(f"dlojz.labs.{lab.id}.figures") for lab in catalogue.labs().values()
             if (lab.folder / "figures.py").exists()), reading]
NUMBERS = ("int", "float", "Sequence[int]", "Sequence[float]", "tuple[int, ...]")  # annotations


@pytest.mark.parametrize("numbers", [
    {"wait": -1}, {"wait": 1.5}, {"warmup": -1}, {"active": 0}, {"active": 2.5}, {"repeat": -1}, {"steps": 0}, {"steps": 10**6},
    {"wait": "5"}, {"wait": True},
], ids=str)
def test_a_schedule_that_cannot_be(numbers):
    (name, value), = numbers.items()
    with pytest.raises(UsageError, match=f"^{name}={value!r} can't be drawn: give a whole number from [01] to 1000$"):
        figures.schedule(**numbers)


def test_a_schedule_at_its_limits():
    assert "step 1: records" in repr(figures.schedule(0, 0, 1, 1, steps=1))
    assert "repeat=0" in repr(figures.schedule(repeat=0)) and "20 steps" in repr(figures.schedule(wait=1000))


@pytest.mark.parametrize("steps", [7, 8, 9, 12, 13, 14])
def test_a_schedule_says_which_trace_a_short_run_leaves(steps):
    """As torch.profiler has it: one that is recording when it is ended writes what it has."""
    torch = pytest.importorskip("torch")
    traces = []
    plan = torch.profiler.schedule(wait=5, warmup=3, active=5, repeat=1)
    with torch.profiler.profile(schedule=plan, on_trace_ready=lambda profiler: traces.append(profiler.step_num)) as profiler:
        for _ in range(steps):
            profiler.step()
    said = repr(figures.schedule(steps=steps))
    assert ("No trace is written" in said) == (not traces)
    assert ("of no step" in said) == (steps == 8) and (f"of {steps - 8} of 5 steps" in said) == (8 < steps < 13)
    assert ("at the end of step 13" in said) == (steps >= 13) and ("is done" in said) == (steps > 13)


def test_a_schedule_without_a_warm_up(recwarn):
    assert "torch warns" in repr(figures.schedule(warmup=0)) and "torch warns" not in repr(figures.schedule())
    assert not recwarn


def test_each_of_several_numbers_is_looked_at():
    @tables.numbers(sizes=(1, 9), share=(0.1, 1.0))
    def figure(sizes, share=0.5):
        return list(sizes), share

    assert figure((1, 9), 1) == ([1, 9], 1) and figure(range(1, 3)) == ([1, 2], 0.5) and figure(()) == ([], 0.5)
    for sizes in ((1, 0), "12", [2.5], None):
        with pytest.raises(UsageError, match=r"sizes=.* can't be drawn: .* a whole number from 1 to 9"):
            figure(sizes)
    with pytest.raises(UsageError, match=r"share=nan can't be drawn: give a number from 0.1 to 1.0"):
        figure((1,), share=float("nan"))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.removeprefix("dlojz.labs."))
def test_every_number_of_a_figure_has_bounds(module):
    for name, figure in inspect.getmembers(module, inspect.isfunction):
        made = inspect.signature(figure)
        needed = {each.name: () for each in made.parameters.values() if each.default is each.empty}
        if (name.startswith("_") or figure.__module__ != module.__name__ or made.return_annotation != "View"
                or any(made.parameters[each].annotation not in NUMBERS for each in needed)):
            continue
        for each in made.parameters.values():
            if each.annotation in NUMBERS:
                with pytest.raises(UsageError, match=f"^{each.name}=-1 can't be drawn"):
                    figure(**needed | {each.name: -1})
