"""The lab hpo: its search.py beside Optuna's own, what its figures say, and the numbers that its texts quote."""

import contextlib
import json
import math
import os
import random
import re
import signal
import types

import pytest

from dlojz.labs import catalogue
from dlojz.labs.hpo import figures
from dlojz.system import paths
from dlojz.system.errors import UsageError
from dlojz.training import trials

optuna = pytest.importorskip("optuna")


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)  # several that wait for each other on a busy machine take ten times as long
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def search():
    return figures.finished()


def tried(trial):
    """An error that depends on lr and falls epoch by epoch; trial 2 is pruned after one."""
    lr = trial.suggest_float("lr", 1e-4, 1, log=True)
    name = trial.suggest_categorical("optimizer", ["sgd", "adamw"])
    if name == "sgd":
        trial.suggest_float("momentum", 0, 0.99)
    for epoch in (1, 2, 3):
        error = 0.3 + 0.1 * abs(math.log10(lr) + 2) / epoch
        trial.report(error, epoch)
        if trial.number == 2:
            raise optuna.TrialPruned
    return error


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    """Eight trials; the worker of the first two is killed in the second."""
    file = tmp_path_factory.mktemp("hpo") / "search.journal"

    def dies(trial):
        if trial.number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return tried(trial)

    pid = os.fork()
    if not pid:
        try:
            trials.Search(file).run(dies, 8)
        finally:
            os._exit(1)
    os.waitpid(pid, 0)
    trials.Search(file).run(tried, 8)
    return file


# ------------------------------------------------------------------------------------------------------------ the reference
def test_halving_decides_as_optunas_pruner_does(search):
    draw, decided = random.Random(0), []
    study = optuna.create_study(pruner=search.PRUNERS["asha"](27))
    for _ in range(80):
        trial, quality = study.ask(), draw.random()
        for epoch in range(1, 28):
            trial.report(round(quality + draw.gauss(0, 0.2), 1), epoch)
            frozen = study.trials[trial.number]
            mine, optunas = search.Yours().prune(study, frozen), trial.should_prune()
            assert mine == optunas, (trial.number, epoch)
            decided.append(mine)
            if mine:
                break
        study.tell(trial, None if mine else quality, optuna.trial.TrialState.PRUNED if mine else None)
    assert 40 < sum(decided) < 80


@pytest.mark.parametrize("name", ["none", "median", "asha", "hyperband", "yours"])
def test_each_pruner_runs_as_many_trials_as_asked_for(search, name, tmp_path):
    """Good trials come first, so that there is something to be worse than."""
    def objective(trial):
        error = 0.3 + trial.number / 100
        for epoch in range(1, 10):
            trial.report(error, epoch)
            if epoch < 9 and trial.should_prune():
                raise optuna.TrialPruned
        return error

    found = trials.Search(tmp_path / "search.journal", search.PRUNERS[name](9), search.SAMPLERS["random"])
    assert found.run(objective, 30) == list(range(30))
    ends = {"complete": [], "pruned": []}
    for row in trials.rows(found.study):
        ends[row["state"]].append(len(row["errors"]))
    assert set(ends["complete"]) == {9}
    if name == "none":
        assert not ends["pruned"]
    elif name == "hyperband":  # three ladders: rungs from 1, from 3, and none at all
        assert {1, 3} <= set(ends["pruned"]) and 2 < len(ends["complete"]) < 15
    else:
        assert set(ends["pruned"]) == {1} and len(ends["complete"]) == {"median": 5, "asha": 1, "yours": 1}[name]


def test_mup_is_the_standard_one_at_its_base_width(search):
    data = search.load(images=(200, 10, 10))
    rows = list(search.transfer(data, widths=(64, 128), rates=[2.0**-8], epochs=1))
    loss = {(row["scheme"], row["width"]): row["loss"] for row in rows}
    assert loss["standard", 64] == loss["muP", 64] and loss["standard", 128] != loss["muP", 128]


def test_the_sets_share_no_image(search):
    data = search.load(images=(50, 50, 50))
    pixels = [one.pixels.double().sum(1).tolist() for one in data]
    assert len({value for one in pixels for value in one}) == 150
    assert data.train.pixels.mean(1).abs().max() < 1e-5


def test_the_same_seed_trains_the_same(search):
    data = search.load(images=(128, 50, 50))
    configuration = {"optimizer": "sgd", "lr": 0.1, "momentum": 0.5, "width": 64, "dropout": 0.2}
    one, other, third = (list(search.fit(configuration, data.train, data.validation, seed, 2)) for seed in (1, 1, 2))
    assert one == other != third and len(one) == 2 and all(0 <= error <= 1 for error in one)


def test_switches(search, capsys):
    for scale in figures._SIZES:
        command = figures.sized(scale).run.split()
        assert command[0] == "search.py" and search.arguments(command[1:]).workers > 1
    with pytest.raises(UsageError, match=r"sqlite:///search\.db is an SQLite file.*several workers"):
        search.arguments(["--journal", "sqlite:///search.db"])
    with pytest.raises(SystemExit):
        search.arguments(["--workers", "0"])
    assert "--workers" in capsys.readouterr().err


def test_workers_do_not_all_sit_on_the_first_gpu(search, monkeypatch, tmp_path):
    started = []

    class Started:
        def __init__(self, command):
            started.append(command[-1])

        def wait(self):
            return 0

    monkeypatch.setattr(search.torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(search.trials.subprocess, "Popen", Started)
    monkeypatch.setattr(search.trials, "accounted", lambda journal, *devices: contextlib.nullcontext(started.append(devices)))
    monkeypatch.setattr(search, "work", lambda args, device: started.append(device) or [])
    switches = ["--journal", str(tmp_path / "search.journal"), "--device", "cuda", "--workers"]
    search.main([*switches, "4"])
    assert started == [("cuda:0", "cuda:1"), "cuda:1", "cuda:0", "cuda:1", "cuda:0"]  # accounted, beside, and this one
    started.clear()
    for name, value in {"RANK": 1, "WORLD_SIZE": 2, "LOCAL_RANK": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 1}.items():
        monkeypatch.setenv(name, str(value))  # torchrun has started one for each GPU
    search.main([*switches, "2"])
    assert started == [("cuda:1",), "cuda:1", "cuda:1"]


# ---------------------------------------------------------------------------------------------------------------- figures
def test_history_and_curves(journal):
    rows = figures._rows(journal)
    best = min((row for row in rows if row["state"] == "complete"), key=lambda row: row["value"])
    said = str(figures.history(journal))
    assert "7 complete, 1 pruned. 22 epochs were trained, 92% of 24." in said
    assert f"The best is trial {best['number']}, {best['value']:.3f}: " in said
    row = str(figures.pruned(journal)).split("\n")[2].split()
    assert row[:3] == ["2", "1", f"{rows[2]['value']:.3f}"] and row[4:6] == ["of", "8"]


def test_a_job_is_found_by_its_name(journal, tmp_path, monkeypatch):
    (tmp_path / "search.journal").write_bytes(journal.read_bytes())
    monkeypatch.setattr(figures.runs, "jobs_of", {"search-001": [types.SimpleNamespace(folder=tmp_path)], str(journal): []}.get)
    assert str(figures.history("search-001")) == str(figures.history(journal)) == str(figures.history(str(journal)))


def test_the_timeline_shows_the_kill(journal):
    said = str(figures.workers(journal))
    assert re.search(r"worker 1: complete .*, killed ", said), said
    assert "8 trials by 2 workers." in said and "Taken up again: trial 1 by worker 2." in said


def test_what_mattered(journal):
    said = str(figures.importance(journal))
    assert re.search(r"\n +lr +\d\.\d\d.*by chance 0\.29", said), said
    assert "lr of " not in said  # four trials of each optimizer are too few
    assert figures.explains([(1, 0.0), (2, 0.0), (3, 1.0), (4, 1.0), (5, 2.0), (6, 2.0)]) == (1.0, 3)
    assert figures.explains([("a", 0.0), ("a", 2.0), ("b", 0.0), ("b", 2.0)]) == (0.0, 2)


@pytest.mark.parametrize("name, value, words", [
    ("lr", 0.9, "(the range ends at 1)"), ("lr", 1.1e-4, "(the range begins at 0.0001)"), ("lr", 0.5, ""),
    ("dropout", 0.001, ""), ("dropout", 0.49, "(the range ends at 0.5)"), ("optimizer", "sgd", "")])
def test_an_end_of_a_range(name, value, words):
    assert figures.at_edge(name, value) == words  # no dropout is a place to be, not a fence


def test_all_figures_have_a_picture_and_a_twin(journal):
    for view in (figures.history(journal), figures.slices(journal), figures.pruned(journal), figures.importance(journal),
                 figures.workers(journal), figures.landscapes(budget=9, seeds=2), figures.recorded_transfer()):
        assert "<svg" in view._repr_html_() and len(str(view).split("\n")) > 3


def test_pruners_are_compared_on_the_same_trainings(search, monkeypatch):
    """Curves that never cross: the best of them after one epoch is the best in the end."""
    draw = random.Random(0)
    curves = [[0.2 + quality + 0.1 / epoch for epoch in range(1, 10)] for quality in (draw.random() / 2 for _ in range(60))]
    record = {"rows": [{"errors": dict(enumerate(curve, start=1))} for curve in curves], "machine": {"gpu": "GPU"}, "date": "",
              "versions": {}}
    monkeypatch.setattr(figures, "_recorded", lambda part: record)
    monkeypatch.setattr(figures, "yours", lambda: search)
    rows = {row[0]: row[1:] for row in (line.split() for line in str(figures.pruners(budget=90, orders=10)).splitlines()[2:7])}
    assert rows["none"][:3] == ["10.0", "10.0", "90.0"] and rows["yours"] == rows["asha"]
    for name in ("median", "asha", "hyperband"):
        assert float(rows[name][0]) > 14 and float(rows[name][1]) < 10 and 90 <= float(rows[name][2]) < 98, rows
        assert float(rows[name][3]) < float(rows["none"][3])  # who sees more trials finds a better one
    assert "1.00 after epoch 1, 1.00 after epoch 3" in str(figures.pruners(budget=9, orders=2))
    with pytest.raises(UsageError, match="budget"):
        figures.pruners(budget=0)


def test_nothing_to_show_yet(tmp_path):
    every = (figures.history, figures.slices, figures.pruned, figures.workers, figures.finalists)
    for figure in every:
        assert "No trial yet" in str(figure(tmp_path / "search.journal"))
    trials.Search(tmp_path / "search.journal").run(lambda trial: 1.0, 2)  # as the stub does
    for figure in every:
        assert "2 trials of" in str(said := figure(tmp_path / "search.journal")) and "is `hpo.objective` written" in str(said)
    assert "0 trials have an error after epoch 3: six are needed" in str(figures.importance(tmp_path / "search.journal", epoch=3))


def test_landscapes_have_their_minima():
    for x, y in ((3, 2), (-2.805118, 3.131312), (-3.779310, -3.283186), (3.584428, -1.848126)):
        assert figures.himmelblau(x, y) < 1e-6
    assert figures.rosenbrock(1, 1) == 0
    assert len(figures._proposals("grid", "Rosenbrock", 49, 0)) == len(figures._proposals("TPE", "Rosenbrock", 49, 0)) == 49


def test_small_functions_by_hand():
    parabola = [(math.exp(x), (x - 1.25) ** 2) for x in (0, 1, 2, 3)]
    assert figures.lowest(parabola) == pytest.approx(math.exp(1.25))
    assert figures.lowest(parabola[2:]) == math.exp(2)
    assert figures.rank([1, 2, 3, 4], [10, 20, 30, 40]) == 1 and figures.rank([1, 2, 3], [3, 2, 1]) == -1
    assert figures.rank([1, 1, 2], [1, 2, 3]) == pytest.approx(0.866, abs=1e-3)


@pytest.mark.slow
def test_a_worker_is_killed_before_your_eyes():
    said = str(figures.killed(count=4))
    assert said.startswith("4 of 4 trials, although worker 1 was killed") and "Taken up again: trial " in said


def test_without_optuna_the_figures_say_so(monkeypatch, journal):
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(UsageError, match="Optuna is not installed: the lab hpo needs it"):
        figures.history(journal)


# ---------------------------------------------------------------------------------------------------------------- records
def test_what_is_quoted_of_the_record_of_rates():
    rows = json.loads((paths.PACKAGE.parent / "docs/results/hpo_transfer-1x-nvidia-h200.json").read_text())["rows"]
    best = {}
    for row in rows:
        key = row["scheme"], row["width"]
        best[key] = min(best.get(key, (9, 0)), (row["loss"], round(math.log2(row["lr"]))))
    assert [best["standard", width][1] for width in (64, 128, 256, 1024, 4096)] == [-8, -9, -9, -10, -11]
    assert {best["muP", width][1] for width in (64, 128, 256, 1024, 4096)} == {-8}
    widest = {round(math.log2(row["lr"])): row["loss"] for row in rows if (row["scheme"], row["width"]) == ("standard", 4096)}
    for page in ("notebooks/day4_4_hpo.ipynb", "docs/day4.md"):
        text = (paths.PACKAGE.parent / page).read_text()
        for loss in (widest[-8], best["standard", 4096][0], best["muP", 4096][0]):
            assert f"{loss:.3f}" in text, (page, loss)


def test_what_is_quoted_of_the_record_of_a_search():
    pages = [(paths.PACKAGE.parent / page).read_text() for page in ("notebooks/day4_4_hpo.ipynb", "docs/day4.md")]
    cost, found = str(figures.recorded_search()), str(figures.recorded_finalists())
    assert "A search takes 17 times the energy" in cost and "120: 34 complete, 86 pruned" in cost and "444, 41% of 1080" in cost
    assert "17 times the energy" in pages[1] and "444 of 1,080 (41 %)" in pages[1] and "34 complete" in pages[0]
    assert re.search(r"trial 74 +0\.3889 +5 +0\.4240 ± 0\.0069 +0\.4306 ± 0\.0084", found), found
    assert re.search(r"trial 108 +0\.3980 +5 +0\.4086 ± 0\.0053 +0\.4117 ± 0\.0055", found), found
    assert "0.424 ± 0.007, and 0.431 ± 0.008 on the test set" in pages[1] and "0.424: 3.5 percentage points more" in pages[0]
    assert "0.409 ± 0.005" in pages[1] and "the third of the search has 0.409" in pages[0]


def test_the_page_has_the_table_of_the_pruners(search, monkeypatch):
    monkeypatch.setattr(figures, "yours", lambda: search)
    page = (paths.PACKAGE.parent / "docs/day4.md").read_text()
    for line in str(figures.pruners()).splitlines()[1:-1]:
        assert f"| {' | '.join(re.split(r' {2,}', line.strip()))} |" in page, line


def test_the_space_can_hold_the_answer():
    text = catalogue.reference("search.py").read_text()
    for name, (low, high) in figures.RANGES.items():
        found = re.search(rf'suggest_float\("{name}", ([\d.e-]+), ([\d.]+)', text)
        assert (float(found[1]), float(found[2])) == (low, high), name
