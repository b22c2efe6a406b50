"""The lab compile: its figures, when compiling pays, and whether a machine is ready."""

import re
from types import SimpleNamespace

import pytest

from dlojz.labs.compile import figures, runs
from dlojz.system import inductor


@pytest.mark.parametrize("timed, after", [
    ((10.0, 0.1, 0.2, 0.2), 99), ((0.2, 0.1, 0.2, 0.2), 1), ((10.0, 0.2, 0.2, 0.2), None), ((10.0, 0.3, 0.2, 0.2), None)])
def test_when_it_pays(timed, after):
    found = runs.pays_after(*timed)
    assert found == (None if after is None else pytest.approx(after))
    if found and after > 1:  # then both have taken as long
        first, step, first_off, step_off = timed
        assert first + (found - 1) * step == pytest.approx(first_off + (found - 1) * step_off)


def test_whether_a_machine_is_ready(monkeypatch):
    assert "does not wait" in runs.sized("ci").why and not runs.sized("ci").ready
    monkeypatch.setattr(inductor, "compiler", lambda: None)
    assert "a C++ compiler (g++)" in runs.sized("laptop").why
    monkeypatch.setattr(inductor, "compiler", lambda: "g++")
    monkeypatch.setattr(inductor, "headers", lambda: True)
    monkeypatch.setattr(inductor, "is_warm", lambda: False)
    assert "`dlojz doctor --warm`" in repr(runs.sized("laptop"))
    monkeypatch.setattr(inductor, "is_warm", lambda: True)
    assert runs.sized("laptop").ready and str(inductor.folder()) in repr(runs.sized("laptop"))


def test_recorded_figures_say_where_they_come_from():
    for figure in (figures.kernel, figures.ladder, figures.pays, figures.decoding):
        text = repr(figure())
        assert re.search(r"recorded on one NVIDIA H\d00, torch 2\.\d+", text), figure.__name__
        assert "<" in figure()._repr_html_()
    kernel = repr(figures.kernel())
    assert kernel.count("tl.load(in_ptr0 + (x0)") == kernel.count("tl.store(") == 1  # one pass over the numbers, each way


def test_what_is_not_kept_is_not_there():
    assert runs.recorded("nothing") == {}


def test_two_runs_cross():
    def job(name, first, step):
        steps = [{"seconds": first}, *[{"seconds": step}] * 3]
        return SimpleNamespace(name=name, record=SimpleNamespace(steps=steps, timed_steps=steps[1:]))

    text = repr(figures.pays(job("compile_off", 1.0, 0.5), job("compile", 11.0, 0.25), job("worse", 11.0, 0.75)))
    assert re.search(r"compile +11\.0 +250\.0 +41 steps", text) and re.search(r"worse .* never", text)


def test_three_loops_do_the_same(monkeypatch):
    import torch

    x = torch.linspace(-2, 2, 9)
    expected = figures.chain(x)
    assert torch.allclose(torch.tensor(figures._in_python(x.tolist())), expected)
    text = repr(figures.loops(count=1000, repeat=1))
    assert "a loop in Python" in text and "torch, 5 operations" in text
    monkeypatch.setattr(figures.shutil, "which", lambda name: None)
    assert "no C compiler here" in repr(figures.loops(count=1000, repeat=1))
    smallest = torch.tensor(2.0**-133, dtype=torch.float64)
    assert smallest.to(torch.bfloat16) > 0, "a library linked with -ffast-math flushes denormal numbers, for all of the kernel"


def test_nothing_is_compiled_where_it_is_not_ready(monkeypatch):
    monkeypatch.setenv("DLOJZ_SCALE", "ci")
    assert "does not wait for a compiler" in repr(figures.here(figures.chain, 1.0))
    assert "does not wait for a compiler" in repr(figures.package(None))


def test_the_source_of_a_kernel_without_what_calls_it():
    code = "kernel = async_compile.cpp_pybinding(['float*'], r'''\nvoid kernel() {}\n''')\n\ndef call(args):\n    kernel()\n"
    assert figures.SOURCE.findall(code) == ["void kernel() {}\n"]
