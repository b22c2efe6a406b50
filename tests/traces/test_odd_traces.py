"""Traces that no profiler should write: times, sizes and names that are none. Never a traceback or a number that is none: a view,
or one sentence."""

import copy
import json
import random
import re

import pytest
from simulated_gpu import ADD, CONV_TC, Gpu

from dlojz import views
from dlojz.system.errors import UsageError

INPUTS = ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "1", "False", "True"]
SIZES = [[8, 16, 32, 32], [16, 16, 3, 3], [16], [], [], [], [], [], []]
DEEP = [[[[[[]]]]]]
for _ in range(400):
    DEEP = [DEEP]
# Only what JSON can hold: NaN and the infinities as Python writes them.
ODD = [None, 0, -1, -1e300, 1e300, 10**400, 1e17, float("nan"), float("inf"), True, "", "text", "12.5", "ProfilerStep#3",
       "kernel", [], [3], {}, {"a": {"b": [1, {"c": None}]}}, DEEP, 0.5, 1e-12]


def body(gpu):
    with gpu.range("dlojz.idle"):
        gpu.load(300)
    with gpu.range("dlojz.copy"), gpu.op("aten::to"):
        gpu.copy(2_000_000, "Pinned")
    with gpu.range("dlojz.forward"):
        for _ in range(3):
            with gpu.op("aten::cudnn_convolution", 40, SIZES, inputs=INPUTS):
                gpu.kernel(CONV_TC, 60.0)
            with gpu.op("aten::add_", 30):
                gpu.kernel(ADD, 20.0)
    with gpu.range("dlojz.backward"), gpu.autograd(), gpu.op("aten::mm", 50, [[64, 64], [64, 64]]):
        gpu.kernel(ADD, 90.0)
        gpu.all_reduce(500_000, 120.0)
    with gpu.range("dlojz.update"), gpu.range("Optimizer.step#SGD.step"), gpu.op("aten::_foreach_add_", 20):
        gpu.kernel(ADD, 20.0)
    gpu.item()


def whole(path, on_gpu: bool) -> dict:
    """The content of a sound trace of two processes."""
    data = json.loads(Gpu(world=2).steps(4, body).write(path).read_text())
    if not on_gpu:
        events = [event for event in data["traceEvents"] if event.get("cat") not in ("kernel", "gpu_memcpy", "cuda_runtime")]
        sent = [event | {"name": "gloo:all_reduce", "cat": "user_annotation", "tid": 4400, "dur": 80.0,
                         "args": {"Input Dims": [[500, 1000]], "Input type": ["float"]}}
                for event in events if event["name"] == "c10d::allreduce_"]
        data["traceEvents"] = events + sent
        assert sent
    return data


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> list[dict]:
    folder = tmp_path_factory.mktemp("sound")
    return [whole(folder / f"{on_gpu}.json", on_gpu) for on_gpu in (True, False)]


def places(value, path=()):
    """Every field of an event, those in its ``args`` too, as keys from the outside in."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for key, inner in enumerate(value):
            yield (*path, key)
            yield from places(inner, (*path, key))


def put(event: dict, path: tuple, value) -> None:
    for key in path[:-1]:
        event = event[key]
    event[path[-1]] = value


def shaken(data: dict, chance: random.Random) -> dict:
    """A copy with some fields of some events, and of what stands around them, replaced by what is none, or left out."""
    data = copy.deepcopy(data)
    events = data["traceEvents"]
    part = chance.choice((0.02, 0.2, 1.0))
    only = chance.choice((None, "ts", "dur", "name", "cat", "tid", "args"))
    one = chance.choice(ODD) if chance.random() < 0.5 else None
    for event in events:
        if chance.random() < part:
            found = [path for path in places(event) if only is None or path[0] == only]
            if not found:
                continue
            path = chance.choice(found)
            if chance.random() < 0.2 and isinstance(path[-1], str):
                put(event, path, None)
                if len(path) == 1:
                    del event[path[0]]
            else:
                put(event, path, one if one is not None else chance.choice(ODD))
    if chance.random() < 0.3:  # nothing is where it was: all overlaps
        for event in events:
            if type(event.get("ts")) in (int, float) and abs(event["ts"]) < 1e18:
                event["ts"] += chance.choice((0, 0, 0.001, 1e3, -1e3, 1e9))
    around = [path for name in ("deviceProperties", "distributedInfo") for path in places(data[name], (name,))]
    if chance.random() < 0.5:
        put(data, chance.choice(around), chance.choice(ODD))
    return data


def said(path) -> str:
    """What the three say, each a view or one sentence."""
    out = []
    for view in (views.trace, views.communications):
        try:
            shown = view(path)
        except UsageError as error:
            assert str(error).count("\n") == 0
            out.append(str(error))
        else:
            out.append(str(shown))
            drawn = re.sub(r"<title>.*?</title>|>[^<]*<", "><", shown._repr_html_())
            assert not re.search(r"\b(nan|inf)\b|(width|height)=\"-", drawn), drawn
    assert all(one.strip() for one in out)
    return "\n".join(out)


@pytest.mark.parametrize("on_gpu", [True, False])
def test_fields_that_are_none(tmp_path, sound, on_gpu):
    """Sixty traces, always the same ones."""
    shown = 0
    for number in range(60):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(shaken(sound[not on_gpu], random.Random(number))))
        text = said(path)
        assert not re.search(r"(^|[ (])(-\d|nan\b|inf\b|not a number)", text), (number, text)
        shown += "diagnosis: " in text
    assert shown > 30  # most is still there


def test_one_report_of_runs_with_such_traces(tmp_path, sound):
    folders = [tmp_path / f"odd-{number:03}" for number in range(10)]
    for number, folder in enumerate(folders):
        folder.mkdir()
        (folder / "trace.json").write_text(json.dumps(shaken(sound[number % 2], random.Random(1000 + number))))
    text = str(views.report(*folders))
    assert "it can't be shown" not in text and all(f"trace of {folder.name}: " in text for folder in folders)
