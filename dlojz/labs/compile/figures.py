"""Figures for the notebook about torch.compile. What only a GPU shows is recorded, and says so."""

from __future__ import annotations

import ctypes
import logging
import math
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from html import escape
from pathlib import Path

from ...ui import charts, tables, words
from ...ui.charts import Line
from ...ui.page import View, headline, quiet, table, table_html
from ...ui.palette import BLUE, GREEN, GREY, ORANGE, VERMILLION
from . import runs

C = """
#include <math.h>
void chain(const float *x, float *y, long count, float scale, float shift) {
    for (long i = 0; i < count; i++) {
        float z = x[i] * scale + shift;
        y[i] = z / (1.0f + expf(-1.702f * z));
    }
}
"""
SOURCE = re.compile(r"'''\n(.*?)'''", re.DOTALL)  # of a kernel, in the code that calls it
COLOURS = {"eager": GREY, "compiled": BLUE, "compiled, CUDA graphs": GREEN, "block by block": ORANGE,
           "compiled, warm cache": VERMILLION}


def chain(x, scale=2.0, shift=1.0):
    """Five pointwise operations."""
    y = x * scale
    y = y + shift
    z = y * 1.702
    z = z.sigmoid()
    return y * z


# ------------------------------------------------------------------------------------------------------------ from Python to C
@tables.numbers(count=(1000, 10**8), repeat=(1, 100))
def loops(count: int = 2**22, repeat: int = 5) -> View:
    """Times five operations on one number after the other: in Python, in C, and operation by operation in torch. On one core."""
    import torch

    few, threads = 20_000, torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        x = torch.randn(count)
        plain = x[:few].tolist()
        rows = [("a loop in Python", "-", _best(lambda: _in_python(plain), 2) / few),
                ("torch, 5 operations", "11", _best(lambda: chain(x), repeat) / count)]
        in_c = _in_c(x, repeat)
        rows.insert(1, ("the same loop in C", "2", in_c and in_c / count))
    finally:
        torch.set_num_threads(threads)
    head = ["way", "passes over memory", "ns per number", "ratio"]
    slowest = rows[0][2]
    cells = [[name, passes, *((f"{1e9 * each:.3g}", words.ratio(slowest / each)) if each else ("no C compiler here", "-"))]
             for name, passes, each in rows]
    title, aside = "y = 2x + 1, then y · sigmoid(1.702 y)", f"{count:,} numbers (Python: {few:,}), one core, timed now"
    page = headline(title, aside) + table_html(head, cells)
    return View("three loops", "\n".join([f"{title}: {aside}", table(head, cells)]), page)


def _in_python(numbers):
    return [z / (1 + math.exp(-1.702 * z)) for z in (2.0 * x + 1.0 for x in numbers)]


def _in_c(x, repeat: int) -> float | None:
    """Seconds of the loop in C; None where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        return None
    y = x.clone()
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "chain.c"), Path(folder, "chain.so")
        source.write_text(C)
        # not -ffast-math: a library linked with it flushes denormal numbers, for all that this process computes later
        made = subprocess.run([compiler, "-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC", "-o", library, source,
                               "-lm"], capture_output=True, timeout=60)
        if made.returncode:
            return None
        function = ctypes.CDLL(str(library)).chain
        function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_float, ctypes.c_float]
        return _best(lambda: function(x.data_ptr(), y.data_ptr(), len(x), 2.0, 1.0), repeat)


def _best(function: Callable, repeat: int) -> float:
    found = []
    for _ in range(repeat + 1):
        begun = time.perf_counter()
        function()
        found.append(time.perf_counter() - begun)
    return min(found[1:])


# --------------------------------------------------------------------------------------------------------------- what is made
def kernel() -> View:
    """The kernel that the chain becomes on a GPU, recorded, with what it moves and how long it takes."""
    found = runs.recorded("chain")
    rows = [(name, found[name]) for name in ("one copy", "eager", "compiled")]
    head = ["", "GB read and written", "ms", "GB/s", "mean error, bf16"]
    cells = [[name, f"{row['gigabytes']:.2f}", f"{row['ms']:.3f}", words.number(row["gb_per_s"]),
              f"{100 * row['mean_relative_error']:.2f} %" if "mean_relative_error" in row else "-"] for name, row in rows]
    code = found["compiled"].get("source") or "no Triton code: this was measured without a GPU"
    title = f"Five operations on {found['']['numbers']:,} numbers in bf16"
    text = "\n".join([f"{title}, {runs.source(found)}", table(head, cells), "", code])
    page = headline(title, runs.source(found)) + table_html(head, cells) + f"<pre>{escape(code)}</pre>"
    return View("one kernel", text, page)


def here(function: Callable, *arguments) -> View:
    """The kernels that torch.compile makes of a function on this machine, where it is ready to; else why not."""
    if why := runs.sized().why:
        return View("compiled here", why, quiet(why))
    import torch
    from torch._inductor.utils import run_and_get_code

    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)  # "No CUDA runtime is found": true, and no trouble
    eager = _best(lambda: function(*arguments), 5)
    compiled = torch.compile(function, dynamic=False)
    begun = time.perf_counter()
    _, codes = run_and_get_code(compiled, *arguments)
    first, later = time.perf_counter() - begun, _best(lambda: compiled(*arguments), 5)
    code = "\n\n".join(SOURCE.findall("\n".join(codes))) or "\n".join(codes)
    said = f"first call {words.seconds(first)}, later {words.seconds(later)}; not compiled {words.seconds(eager)}"
    return View("compiled here", f"{said}\n\n{code}", headline("Compiled on this machine", said) + f"<pre>{escape(code)}</pre>")


# ------------------------------------------------------------------------------------------------------------- when it pays
def pays(off=None, *on) -> View:
    """Seconds since the beginning against steps: where a line crosses that of the run without, compiling has paid for itself.

    Of recorded runs of resnet50 on a GPU, or of these jobs: the first of them is not compiled.
    """
    remark = ""
    if off is None:
        remark = ("Eager's first step is without starting CUDA and cuDNN's search, which the other runs found done. The run with "
                  "CUDA graphs found some kernels in the cache.")
        found, title = runs.recorded("ladder"), "When compiling has paid for itself"
        timed = {name: (row["first_step_s"], row["step_ms"] / 1e3) for name, row in found.items() if name}
        timed["eager"] = found["eager"]["second_step_s"], timed["eager"][1]  # its first step has started CUDA and cuDNN for all
        aside = f"ResNet-50, 224 px, batch 256, bf16, channels-last; {runs.source(found)}"
    else:
        timed = {job.name: _of_job(job) for job in (off, *on)}
        title, aside = "When compiling has paid for itself", "recorded runs" if getattr(off, "recorded", "") else "your runs"
    (first_off, step_off), names = next(iter(timed.values())), list(timed)
    after = {name: runs.pays_after(*timed[name], first_off, step_off) for name in names[1:]}
    longest = min(max([1.3 * each for each in after.values() if each] or [100]), 100_000)
    series = [Line(name, [(n, first + step * (n - 1)) for n in (1, longest)], COLOURS.get(name))
              for name, (first, step) in timed.items()]
    chart = charts.lines(series, x="steps", y="seconds", x_range=(0, longest))
    head = ["run", "first step, s", "later steps, ms", "has paid after"]
    cells = [[name, f"{first:.1f}", f"{step * 1e3:.1f}",
              "-" if name not in after else "never" if after[name] is None else f"{math.ceil(after[name]):,} steps"]
             for name, (first, step) in timed.items()]
    text = "\n".join([f"{title}: {aside}", table(head, cells), *([remark] if remark else [])])
    return View("when it pays", text, lambda: headline(title, aside) + chart.html() + table_html(head, cells) + quiet(remark))


def _of_job(job) -> tuple[float, float]:
    """Seconds of a job's first step, and of a later one on average."""
    record = job.record
    timed = [step["seconds"] for step in record.timed_steps]
    return record.steps[0]["seconds"], sum(timed) / len(timed)


def ladder() -> View:
    """The recorded runs of resnet50: speed, memory, the first step, and the loss after as many steps."""
    found = runs.recorded("ladder")
    rows = {name: row for name, row in found.items() if name}
    base = rows["eager"]["images_per_second"]
    head = ["run", "images/s", "ratio", "peak GB", "first step, s", "loss, step 1", "loss, step 5"]
    cells = [[name, words.number(row["images_per_second"]), words.ratio(row["images_per_second"] / base),
              f"{row['memory_gb']:.1f}" if row["memory_gb"] else "-", f"{row['first_step_s']:.1f}",
              f"{row['losses'][0]:.4f}", f"{row['losses'][2]:.4f}"] for name, row in rows.items()]
    title = "ResNet-50, compiled in four ways"
    text = "\n".join([f"{title}, {runs.source(found)}", table(head, cells)])
    return View("the ladder", text, headline(title, runs.source(found)) + table_html(head, cells))


def decoding() -> View:
    """Recorded: a small network, and a language model that reads prompts or writes one token at a time."""
    found, small = runs.recorded("decode"), runs.recorded("graphs")
    head = ["what", "way", "ms", "ratio", "first calls, s"]
    cells, groups = [], {"a training step of a small MLP": small}
    for kind in ("decode", "prefill"):
        groups[kind] = {name.removeprefix(f"{kind}, "): row for name, row in found.items() if name.startswith(kind)}
    for what, every in groups.items():
        rows = {name: row for name, row in every.items() if "ms" in row}
        base = next((row["ms"] for row in rows.values()), None)
        for name, row in rows.items():
            first = row.get("first_s", [])
            firsts = ", ".join(f"{each:.1f}" for each in (first if isinstance(first, list) else [first]))
            cells.append([what, name, f"{row['ms']:.3g}", words.ratio(base / row["ms"]), "-" if name == "eager" else firsts])
    title = "Where launches are what takes time"
    prompts = f"prefill: prompts of {', '.join(map(str, found['']['prompts']))} tokens; " if groups["prefill"] else ""
    aside = f"decode: one token; {prompts}{runs.source(found)}"
    return View("decode", "\n".join([f"{title}: {aside}", table(head, cells)]), headline(title, aside) + table_html(head, cells))


def package(program, *arguments, now: bool = False) -> View:
    """An exported program as a package that needs no Python, where this machine is ready to compile; else why not. On a laptop it
    takes half a minute, so only with ``now``."""
    here = runs.sized()
    slow = "" if now or here.scale in ("gpu", "cluster") else "This takes half a minute on a laptop: add now=True."
    if why := here.why or slow:
        return View("a package", why, quiet(why))
    import torch

    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        file = Path(torch._inductor.aoti_compile_and_package(program, package_path=str(Path(folder, "net.pt2"))))
        took, size = time.perf_counter() - begun, file.stat().st_size
        same = torch.allclose(torch._inductor.aoti_load_package(str(file))(*arguments), program.module()(*arguments), atol=1e-5)
    said = f"compiled in {words.seconds(took)}, {size / 1e3:.0f} kB; the same result: {same}"
    return View("a package", said, headline("A package for C++", said))
