"""Runs that come with the kit, recorded elsewhere, beside one's own."""

import json

import pytest
from runs_by_hand import CPU, VALIDATION, end, folder, record, start, steps

from dlojz import views
from dlojz.jobs import recorded, runs
from dlojz.jobs.recorded import reference, save
from dlojz.system.errors import UsageError
from dlojz.ui import charts
from dlojz.views import comparable
from dlojz.views.compare import switches
from dlojz.views.curves import _positions
from dlojz.views.timeline import laid_out

H200 = {"device": "cuda", "gpu": "NVIDIA H200", "cpu": "EPYC", "cores_allowed": 16, "host": "node7", "gpu_uuid": "GPU-1"}


def on(machine, seconds, **args):
    begins = start(machine, **args) | {"command": "train.py --run-dir /home/me/x", "git": {"commit": "1"}}
    return [begins, *steps(seconds=seconds), VALIDATION, end()]


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setattr(recorded, "FOLDER", tmp_path / "recorded")
    for name, seconds in (("gpu", 0.5), ("amp", 0.25), ("sweep-2", 0.5), ("sweep-10", 0.5), ("sweep-1", 0.5)):
        save(record(*on(H200, seconds)), name, recorded.FOLDER)
    save(record(*on(CPU, 4.0)), "gpu", recorded.FOLDER)


def test_a_run_says_where_it_was_recorded(kept):
    assert reference("gpu").name == "gpu (recorded on EPYC)", "of the first card that has it"
    amp = reference("amp")
    assert amp.name == "amp (recorded on NVIDIA H200)" and amp.state == "COMPLETED" and amp.recorded == "h200"
    assert repr([amp]) == "[amp (recorded on NVIDIA H200): COMPLETED]", "as the last line of a cell shows it"
    assert amp.name in str(views.dashboard(amp, against=reference("gpu", on="H200")))
    assert "2.00x" in str(views.dashboard(amp, against=reference("gpu", on="H200")))
    assert [run.name.split()[0] for run in reference("sweep")] == ["sweep-1", "sweep-2", "sweep-10"]
    for view in (views.timeline, views.curves):
        assert amp.name in str(view(amp))


@pytest.mark.parametrize("asked, said", [
    (("amb",), "no run 'amb' is recorded: did you mean 'amp'"),
    (("amp", "cpu"), "no run 'amp' is recorded on cpu: Choose from gpu"),
    (("amp", "h20"), "no runs are recorded on 'h20': did you mean 'h200'")])
def test_what_was_not_recorded(kept, asked, said):
    with pytest.raises(UsageError, match=said):
        reference(*asked)


def test_ratios_are_within_a_card(kept, tmp_path):
    """Beside one's own runs on a CPU: what the switch brought there, and what it brought here."""
    mine = [folder(tmp_path / f"{name}-001", on(CPU, seconds), {"state": "COMPLETED", "reason": "", "exit_code": 0})
            for name, seconds in (("gpu", 4.0), ("amp", 5.0))]
    view = views.compare(*mine, reference("gpu", on="h200"), reference("amp"))
    ratios = {row["run"].split()[0]: row["ratio"] for row in view.rows}
    assert ratios == {"gpu-001": 1, "amp-001": pytest.approx(0.8), "gpu": 1, "amp": pytest.approx(2)}
    assert "ratios of what was recorded on NVIDIA H200, 16 cores, torch 2.11.0, 1970-01-01 are to gpu (recorded on NVIDIA H200)" \
        in str(view) and "not comparable" not in str(view)
    assert "not comparable" in str(views.compare(*mine, reference("amp"))), "the run to compare with was not asked for"


def test_a_switch_that_the_script_did_not_have_yet_is_as_it_is_without_being_asked_for():
    old, new, asked = (record(*on(H200, 0.5)) for _ in range(3))
    new.start["args"]["decay"] = asked.start["args"]["decay"] = "all"
    new.start["switches"], asked.start["switches"] = {}, {"decay": "all"}
    assert switches(runs.several(old, new)) == [] and switches(runs.several(old, asked)) == ["decay"]
    assert comparable.differences(*runs.several(new, old)) == []
    assert comparable.differences(*runs.several(asked, old)) == ["decay all here, off there"]


def test_what_was_recorded_elsewhere_has_a_scale_and_sizes_of_its_own(kept, tmp_path, monkeypatch):
    mine = [folder(tmp_path / f"{name}-001", on(CPU, seconds, batch_size=2), {"state": "COMPLETED", "reason": "", "exit_code": 0})
            for name, seconds in (("gpu", 4.0), ("amp", 5.0))]
    drawn, bars = [], charts.bars
    monkeypatch.setattr(charts, "bars", lambda some, **more: drawn.append(([bar.name for bar in some], more["baseline"]))
                        or bars(some, **more))
    view = views.compare(*mine, reference("gpu", on="h200"), reference("amp"))
    assert view.page and view.switches == [] and drawn == [
        (["gpu-001", "amp-001"], "gpu-001"),
        (["gpu (recorded on NVIDIA H200)", "amp (recorded on NVIDIA H200)"], "gpu (recorded on NVIDIA H200)")]


def test_nothing_of_the_person_is_kept(kept):
    text = (recorded.FOLDER / "h200" / "amp.jsonl").read_text()
    assert not any(private in text for private in ("/home/me", "node7", "GPU-1", "commit"))
    assert json.loads(text.split("\n")[3])["seconds"] == 0.25 and len(text) < 6000


def test_a_long_run_is_kept_in_few_steps_with_its_seconds_and_validations(tmp_path):
    slow = [step | ({"seconds": 9.0} if step["step"] == 250 else {}) for step in steps(last=800, seconds=0.5)]
    long = record(start(H200, total=800), *slow[:300], VALIDATION | {"step": 300, "seconds": 4.0}, *slow[300:], end())
    run = recorded.read(save(long, "long", tmp_path))
    assert 100 <= len(run.record.steps) <= recorded.MOST + 10 and run.numbers["step_seconds"] == pytest.approx(0.5)
    assert laid_out(run).end == pytest.approx(sum(step["seconds"] for step in slow) + 4)
    assert "800 steps in" in str(views.timeline(run)) and "1 validation took 4.00 s" in str(views.timeline(run))
    assert all(300 in _positions(run, by) for by in ("step", "epoch", "time")), "its dot is drawn"


def test_what_comes_with_the_kit_is_whole():
    for card, names in recorded.recorded().items():
        for name, files in names.items():
            found = [recorded.read(file) for file in files]
            assert all(run.state == "COMPLETED" and run.numbers.get("images_per_second") for run in found), (card, name)
            assert all(recorded.card(run.record) == card and file.stat().st_size < 45_000 for run, file in zip(found, files))
