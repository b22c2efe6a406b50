"""The figures of the notebook on FSDP: bytes by formula, and bytes as runs have recorded them."""

import json

import pytest

from dlojz.jobs import runs
from dlojz.labs.fsdp import figures
from dlojz.system.errors import UsageError


def test_16_bytes_per_parameter_are_split_over_the_processes():
    text = repr(figures.stages(processes=4, billions=2, blocks=10))
    assert "DDP    32.0 GB" in text
    assert "zero2  16.0 GB" in text  # a quarter, 8 GB, and all parameters gathered
    assert "zero3  9.60 GB" in text  # a quarter, and two blocks of ten


def a_run(folder, name, held):
    folder = folder / name
    folder.mkdir()
    steps = [{"event": "step", "step": n, "seconds": 0.5, "images": 100, "loss": 1.0, "lr": 0.1, "epoch": 0} for n in range(1, 5)]
    end = {"event": "end", "status": "completed", "steps": 4}
    end |= dict(zip(("bytes_parameters", "bytes_gradients", "bytes_states"), held))
    start = {"event": "start", "unit": "tokens", "total_steps": 4, "warmup_steps": 0, "world_size": 2}
    (folder / "record.jsonl").write_text("".join(json.dumps({"time": 1.0} | event) + "\n" for event in (start, *steps, end)))
    return runs.of_folder(folder)


def test_runs_beside_each_other(tmp_path):
    view = figures.held(a_run(tmp_path, "copies", (4e6, 4e6, 8e6)), a_run(tmp_path, "parts", (2e6, 2e6, 4e6)))
    assert "16.0 MB" in repr(view) and "8.00 MB" in repr(view) and "not measured: no GPU" in repr(view)
    assert "200" in repr(view)  # tokens/s: 400 in 2 s
    assert "16.0 MB" in view._repr_html_()


def test_a_run_that_has_not_recorded_it_is_refused(tmp_path):
    with pytest.raises(UsageError, match="other has not recorded what it holds"):
        figures.held(a_run(tmp_path, "other", ()))
