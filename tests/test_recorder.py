"""A record from loops that know nothing of the kit: the six lines of docs/own.md, the callbacks, and a trace from outside."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
from patience import LIMIT, patient

from dlojz import Recorder, callbacks, cli, views
from dlojz.jobs import script
from dlojz.labs.audit import traced as traced_script
from dlojz.system import processes, sites
from dlojz.system.errors import UsageError
from dlojz.training import recorder, records, tracing

PAGE = Path(__file__).parents[1] / "docs" / "own.md"


def parts():
    """What the page's lines need: 960 points in batches of 32, a model, an optimizer."""
    torch.manual_seed(0)
    points = torch.randn(960, 8)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(points, points[:, :3].argmax(1)), 32)
    model = torch.nn.Linear(8, 3)
    return {"torch": torch, "model": model, "loader": loader, "optimizer": torch.optim.SGD(model.parameters(), lr=0.5)}


def test_the_page_makes_a_record_that_the_views_show(tmp_path, monkeypatch):
    monkeypatch.setenv("DLOJZ_RUN", str(tmp_path / "mine"))
    text = re.search(r"## Six lines.*?```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    assert re.findall(r"# (\d)\b", text) == list("123456")
    hook = sys.excepthook
    exec(compile(text, "own.md", "exec"), parts())
    assert sys.excepthook is hook
    record = records.read(tmp_path / "mine")
    assert [step["step"] for step in record.steps] == list(range(1, 61))
    assert record.progress == (60, 60) and record.end["status"] == "completed" and not record.torn
    assert record.steps[-1]["loss"] < 0.7 * record.steps[0]["loss"] and record.steps[-1]["images"] == 32
    assert [found["step"] for found in record.validations] == [30, 60]
    assert record.start["parameters"] == 27 and record.start["model"] == "Linear"
    shown = str(views.dashboard(tmp_path / "mine"))
    assert "60 of 60 steps" in shown and "accuracy 75.0%, loss 0.5" in shown
    assert re.search(r"precision\s+not recorded", shown)  # nobody has said it
    assert "60" in str(views.curves([tmp_path / "mine"]))


def test_losses_phases_and_smaller_batches(tmp_path):
    given = parts()
    run = Recorder(given["model"], 32, phases=True, folder=tmp_path, unit="rows")
    for number, (points, labels) in enumerate(run.steps(given["loader"])):
        run.forward()
        loss = torch.nn.functional.cross_entropy(given["model"](points), labels)
        run.backward()
        loss.backward()
        run.update()
        run.step(loss, correct=torch.tensor(24), items=16 if number == 29 else None)
    run.end()
    steps = records.read(tmp_path).steps
    assert steps[-1]["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert steps[0]["accuracy"] == 24 / 32 and steps[-1]["accuracy"] == 24 / 16 and steps[-1]["images"] == 16
    for step in steps:
        assert sum(step[phase] for phase in ("idle", "copy", "forward", "backward", "update")) == pytest.approx(
            step["seconds"], abs=1e-5)


def test_what_stops_a_script_is_in_its_record(tmp_path):
    (tmp_path / "mine.py").write_text("import torch\nfrom dlojz import Recorder\nrun = Recorder(torch.nn.Linear(2, 2), 4)\n"
                                      "run.step(0.5)\nraise RuntimeError('CUDA error: out of memory, not enough memory')\n")
    done = subprocess.run([sys.executable, "mine.py"], cwd=tmp_path, capture_output=True, text=True, timeout=patient(120),
                          env=os.environ | {"PYTHONPATH": str(PAGE.parents[1])})
    assert done.returncode == 1 and "RuntimeError" in done.stderr
    record = records.read(tmp_path / "runs" / "mine-001")
    assert record.errors[0]["kind"] == "out_of_memory" and record.end["status"] == "failed" and len(record.steps) == 1


@pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="lightning is not installed")
def test_lightning(tmp_path):
    import lightning

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = parts()["model"]

        def training_step(self, batch, number):
            return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def validation_step(self, batch, number):
            self.log("val_loss", torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.5)

    loader = parts()["loader"]
    lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                      accumulate_grad_batches=2, callbacks=[callbacks.for_lightning(folder=tmp_path)]).fit(Net(), loader, loader)
    record = records.read(tmp_path)
    assert record.progress == (30, 30) and [step["images"] for step in record.steps] == [64] * 30
    assert record.steps[-1]["loss"] < 0.7 * record.steps[0]["loss"] and record.steps[0]["lr"] == 0.5
    assert record.steps[3]["backward"] > 0 and [found["step"] for found in record.validations] == [15, 30]


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is not installed")
def test_trainer(tmp_path):
    from transformers import Trainer, TrainingArguments

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = parts()["model"]

        def forward(self, x, labels):
            return {"loss": torch.nn.functional.cross_entropy(self.net(x), labels)}

    data = [{"x": point, "labels": label} for points, labels in parts()["loader"] for point, label in zip(points, labels)]
    asked = TrainingArguments(str(tmp_path / "out"), num_train_epochs=2, per_device_train_batch_size=32, logging_steps=5,
                              eval_strategy="epoch", report_to=[], save_strategy="no", learning_rate=0.1, disable_tqdm=True,
                              use_cpu=True, remove_unused_columns=False, prediction_loss_only=True)
    Trainer(Net(), asked, train_dataset=data, eval_dataset=data, callbacks=[callbacks.for_trainer(folder=tmp_path)]).train()
    record = records.read(tmp_path)
    assert record.progress == (60, 60) and [step["step"] for step in record.steps if "loss" in step] == list(range(5, 61, 5))
    assert record.steps[-1]["loss"] < record.steps[4]["loss"] and "loss" in record.validations[-1]
    assert [found["step"] for found in record.validations] == [30, 60]


def test_what_a_run_counts_and_where_it_is_found(tmp_path, monkeypatch, capsys):
    """Far from any workspace, and without what only the kit's scripts record."""
    monkeypatch.chdir(tmp_path)
    for name in ("DLOJZ_RUN", "DLOJZ_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "argv", ["mine.py"])
    model = torch.nn.Linear(8, 3)
    for fails in (False, True):
        run = Recorder(model, 32, total_steps=20, unit="tokens")
        for epoch in range(2):
            for _ in run.steps(range(10)):
                run.step(torch.tensor(1.0), items=4096, epoch=epoch)
        run.validated(accuracy=0.7, images=4096)
        if fails:
            monkeypatch.setattr(run, "_hook", lambda *_: None)
            run._failed(ValueError, ValueError("no more"), None)
        else:
            run.end()
    assert cli.main(["report", "mine-001"]) == 0
    text = capsys.readouterr().out
    assert "tokens/s" in text and re.search(r"batch +32 tokens\n", text) and "accuracy 70.0% of 4,096 tokens" in text
    assert "images" not in text and re.search(r"mine-001 +20 +2.00 ", text)
    assert cli.main(["report", "mine"]) == 1 and "mine-002" in capsys.readouterr().out
    assert cli.main(["report", "other"]) == 2
    assert "there is no run 'other' in" in capsys.readouterr().err


def traced(folder, *words):
    return subprocess.run([sys.executable, "-m", "dlojz.cli", "trace", *words], cwd=folder, capture_output=True, text=True,
                          timeout=patient(120), env=os.environ | {"PYTHONPATH": str(PAGE.parents[1])})


def test_a_trace_from_outside(tmp_path):
    """Of a script that trains two models in turn, as adversarial ones do: a step is an update of the first."""
    (tmp_path / "mine.py").write_text(
        "import torch\nnet, other = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)\n"
        "a, b = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.AdamW(other.parameters())\nfor step in range(9):\n"
        "    for one, optimizer in ((net, a), (other, b)):\n        one(torch.randn(512, 64)).sum().backward()\n"
        "        optimizer.step()\nopen('whole', 'w').close()\n")
    done = traced(tmp_path, "--updates", "3", "--skip", "4", "mine.py")
    assert done.returncode == 0, done.stderr
    assert "diagnosis: " in done.stdout and "trace-mine-001" in done.stdout and not (tmp_path / "whole").exists()
    from dlojz import traces

    trace = traces.read(tmp_path / "runs" / "trace-mine-001" / "trace.json.gz")
    updates = [call for call in trace.calls if call.kind == "range" and call.name.startswith("Optimizer.step")]
    assert len(trace.steps) == 3 and len(updates) == 6  # two of each step


def test_a_trace_of_several_processes_is_of_rank_0_and_ends_all(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\ntorch.distributed.init_process_group('gloo')\n"
        "net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\nwhile True:\n    net(torch.randn(4, 8)).sum().backward()\n"
        "    optimizer.step()\n")
    done = traced(tmp_path, "--ranks", "2", "--updates", "2", "--skip", "1", "mine.py")
    assert done.returncode == 0 and "rank 0 of 2" in done.stdout, done.stderr


SPOILT = {"raise ValueError('no data')": (r"mine.py failed after 0 updates .*: ValueError", "ValueError: no data"),
          "import sys; sys.exit('no data')": (r"mine.py ended with code 1 after 0 updates", "no data"),
          "import argparse; p = argparse.ArgumentParser(); p.add_argument('data'); p.parse_args()": (
              r"ended with code 2 .* come after its name", "are required: data"),
          "import sys; sys.exit()": (r"mine.py ended after 0 updates .*Does an argument make it train", "")}


@pytest.mark.parametrize("line", SPOILT)
def test_a_script_that_ends_before_its_trace(tmp_path, monkeypatch, capsys, line):
    (tmp_path / "mine.py").write_text(line + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["mine.py"])
    tracer = tracing.Tracer(13, tmp_path / tracing.NAME, mock.Mock())
    said, shown = SPOILT[line]
    with pytest.raises(UsageError, match=said):
        tracing.run("mine.py", tracer, tracing.parser().parse_args(["--folder=.", "mine.py"]))
    err = capsys.readouterr().err
    assert shown in err and "runpy" not in err and tracer.profiler.stop.called


def test_a_trace_that_cannot_be_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DLOJZ_RUN", raising=False)
    (tmp_path / "mine.py").write_text("import torch\n")
    asked = cli.parser().parse_args(["trace", "mine.py", "--updates=3"])
    with pytest.raises(UsageError, match=r"put it before: dlojz trace --updates"):
        asked.run(asked)
    monkeypatch.setattr(subprocess, "Popen", lambda *asked, **_: None)
    monkeypatch.setattr(traced_script, "wait", lambda started, until: (0, 2))
    assert cli.main(["trace", "mine.py"]) == 2 and not list((tmp_path / "runs").iterdir())
    assert cli.main(["trace", "--ranks", "2", "nothing.py"]) == 2 and not list((tmp_path / "runs").iterdir())
    monkeypatch.setattr(traced_script, "wait", mock.Mock(side_effect=KeyboardInterrupt))
    assert cli.main(["trace", "mine.py"]) == 130 and not list((tmp_path / "runs").iterdir())


CTRL_C = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
HEARD = f"try:\n    {CTRL_C}\nexcept KeyboardInterrupt: exit(0)"
TORCH = "class Optimizer:\n    def profile_hook_step(step): return step\n"


@pytest.mark.parametrize("torch, script, code", [(CTRL_C, "", -signal.SIGINT), ("", CTRL_C, 130), ("", HEARD, 2)],
                         ids=["while torch is imported", "in the script", "in a script that has heard of it"])
def test_ctrl_c_in_a_trace_prints_no_traceback(tmp_path, torch, script, code):
    """Rank 1 of two has no profiler. `dlojz trace` starts it deaf, so that not even Python's own start is interrupted."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(torch)
    (tmp_path / "torch" / "optim.py").write_text(TORCH)
    (tmp_path / "mine.py").write_text(script)
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{Path(cli.__file__).parents[1]}", "RANK": "1", "WORLD_SIZE": "2",
                                "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # pytest may be in the background
    try:
        with processes.deaf_to_ctrl_c():
            ended = subprocess.run([sys.executable, "-m", tracing.__name__, "--folder=.", "mine.py"], cwd=tmp_path,
                                   env=environment, capture_output=True, text=True, timeout=LIMIT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (ended.returncode, ended.stderr) == (code, "")


def test_programs_as_jobs(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    (tmp_path / "bin").mkdir()
    for name in ("accelerate", "python"):
        (tmp_path / "bin" / name).touch(0o755)
    for name in ("run.sh", "mine.py"):
        (tmp_path / name).write_text("# \n")
    site, folder = sites.load("laptop"), tmp_path / "runs" / "x-001"
    for text, name, file in (("bash run.sh -x", "run", "run.sh"), ("accelerate launch mine.py", "accelerate-mine", "mine.py"),
                             ("bash -c 'exit 3'", "bash", None)):
        command = script.checked_command(text, tmp_path)
        assert command.script == (file and tmp_path / file)  # its content is part of what makes the job the same
        asked = script.request(site, command)
        assert asked.name == name
        line = next(line for line in script.render(asked, folder, site="laptop", scale="ci").splitlines() if "srun -" in line)
        assert line.split('"${start[@]}" ')[1].startswith(f'env PATH={tmp_path}/bin:"$PATH" "${{script[@]}}"')
    command = script.checked_command("dlojz trace --skip 2 mine.py", tmp_path)  # the kit needs no program beside this Python
    assert command == script.Command(("-m", "dlojz.cli", "trace", "--skip", "2", "mine.py"), tmp_path / "mine.py")
    assert script.request(site, command).name == "dlojz-mine"
    for text in ("rm -rf /", "bash", "./accelerate x"):
        with pytest.raises(UsageError, match="is not a Python script"):
            script.checked_command(text, tmp_path)


def test_json_of_a_record_is_plain(tmp_path):
    run = Recorder(torch.nn.Linear(2, 2), 4, folder=tmp_path, args={"where": tmp_path, "rate": float("inf")})
    run.end()
    start = json.loads((tmp_path / records.NAME).read_text().splitlines()[0])
    assert start["args"] == {"where": str(tmp_path), "rate": "inf"}


def test_a_model_is_the_same_in_one_process_and_in_several():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    assert recorder._inner(torch.compile(torch.nn.DataParallel(model))) is model
