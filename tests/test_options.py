"""Which switches go together: every pair is accepted or refused in one line, and what is accepted runs."""

import contextlib
import importlib.util
import itertools
import sys
from argparse import Namespace

import pytest
import torch
import torchvision
from training import SCRIPT

from dlojz.system.errors import UsageError
from dlojz.training import options, small_resnet  # noqa: F401  (one of the models from here on)
from dlojz.training.distributed import Processes

# Each switch with values that do something: the first of each is used in the pairs of one process on a CPU.
VALUES = {
    "--model": ["resnet18", "vit_b_16", "inception_v3"], "--data": ["random", "photos", "tiny"], "--image-size": ["80", "224"],
    "-b": ["2", "64"], "-e": ["2"], "--lr": ["0.1", "0"], "--wd": ["0", "0.1"], "--mom": ["0", "0.95"],
    "--optimizer": ["adamw", "lamb", "muon"], "--fused": [None], "--schedule": ["onecycle", "wsd"], "--label-smoothing": ["0.1"],
    "--warmup": ["3"], "--decay": ["weights"], "--find-lr": [None], "--progressive": [None],
    "--seed": ["0"], "--test": [None], "--test-steps": ["4"], "--device": ["cpu", "cuda", "auto"], "--tf32": [None],
    "--amp": ["fp16", "bf16"], "--augment": ["mixup", "randaugment", "mixup-cpu", "cutmix-loop", "cutmix"], "--alpha": ["0.5"],
    "--clip-grad": ["1"], "--channels-last": [None], "--compile": ["default", "reduce-overhead", "max-autotune"],
    "--compile-blocks": [None], "--num-workers": ["1", "0"], "--persistent-workers": [None], "--pin-memory": [None],
    "--non-blocking": [None],
    "--prefetch-factor": ["3"], "--drop-last": [None], "--sync-bn": [None], "--find-unused-parameters": [None],
    "--accumulate": ["2"], "--metric-every": ["3"], "--profile": [None], "--checkpoint-activations": [None],
    "--checkpoint-every": ["2"], "--resume": [None], "--run-dir": ["DIR"], "--no-chronometer": [None],
}
NOTED = ("has no effect", "is emulated", "scales the steps of norms and biases")
CHOICES = [(name, value) for name, values in VALUES.items() for value in values]
MODELS = torchvision.models.list_models(torchvision.models)


@pytest.fixture(scope="module")
def script():
    """The training script as a module: importing it trains nothing."""
    sys.path.insert(0, str(SCRIPT.parent))
    spec = importlib.util.spec_from_file_location("train_script", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(SCRIPT.parent))


@pytest.fixture
def ask(script, monkeypatch):
    monkeypatch.setenv("DLOJZ_SITE", "laptop")
    monkeypatch.delenv("DLOJZ_RUN", raising=False)

    def ask(*argv, world=1, cuda=False):
        """The notes of an accepted command; UsageError for a refused one."""
        args = script.arguments([str(word) for word in argv])
        return options.settle(args, Processes(world_size=world), cuda, MODELS), args

    return ask


def words(*choices):
    return [word for name, value in choices for word in (name, value) if word is not None]


def test_every_switch_is_in_these_tests(script, capsys):
    with pytest.raises(SystemExit):
        script.arguments(["--help"])
    named = {word.strip(",[]()") for word in capsys.readouterr().out.split() if word.startswith(("--", "[--"))}
    untested = {name for name in named if name.startswith("--") and not name.startswith("--no-")} - set(VALUES)
    assert untested <= {"--help", "--chronometer", "--batch-size", "--epochs"}


@pytest.mark.parametrize("cuda, world", [(True, 4), *(pytest.param(*other, marks=pytest.mark.long)
                                                       for other in ((False, 1), (False, 4), (True, 1)))])
def test_every_pair_is_accepted_or_refused_in_one_line(ask, world, cuda):
    accepted, refused = set(), {}
    for one, other in itertools.combinations(CHOICES, 2):
        if one[0] == other[0]:
            continue
        try:
            notes, args = ask(*words(one, other), world=world, cuda=cuda)
        except UsageError as error:
            said = str(error)
            assert said and "\n" not in said and len(said) < 200
            assert any(name in said for name, _ in (one, other)), f"{one} {other}: {said}"
            refused[one, other] = said
        else:
            assert args.device in ("cpu", "cuda") and (args.device == "cuda") <= cuda
            assert all("\n" not in note and any(said in note for said in NOTED) for note in notes)
            accepted.add((one, other))
    alone = {choice for choice in CHOICES if _refused(ask, [choice], world, cuda)}
    for one, other in accepted:
        # What is refused alone is accepted only beside what it needs.
        for choice in {one, other} & alone:
            assert {one[0], other[0]} in NEEDS, f"{choice} is refused alone, but not in {one} {other}"
    for (one, other), said in refused.items():
        if not {one, other} & alone:
            assert frozenset((one[0], other[0])) in EXCLUDE, f"{one} {other}: {said}"
    assert len(accepted) > 0.6 * len(refused | dict.fromkeys(accepted))


NEEDS = [{"--persistent-workers", "--num-workers"}, {"--prefetch-factor", "--num-workers"}, {"--resume", "--run-dir"},
         {"--compile-blocks", "--compile"},
         {"--model", "--image-size"}]
EXCLUDE = {frozenset(pair) for pair in [("--compile", "--accumulate"), ("--model", "--image-size"), ("--device", "--sync-bn"),
                                        ("--num-workers", "--persistent-workers"), ("--num-workers", "--prefetch-factor")]}


def _refused(ask, choices, world, cuda):
    try:
        ask(*words(*choices), world=world, cuda=cuda)
    except UsageError:
        return True
    return False


@pytest.mark.parametrize("argv, said", [
    (["--batch-size", "0"], "--batch-size must be at least 1"), (["--epochs", "-1"], "--epochs must be at least 1"),
    (["--test-steps", "0"], "--test-steps must be at least 1"), (["--accumulate", "0"], "--accumulate must be at least 1"),
    (["--metric-every", "0"], "--metric-every must be at least 1"), (["--image-size", "0"], "--image-size must be at least 1"),
    (["--checkpoint-every", "0"], "--checkpoint-every must be at least 1"),
    (["--prefetch-factor", "0", "--num-workers", "1"], "--prefetch-factor must be at least 1"),
    (["--num-workers", "-1"], "--num-workers must not be negative"),
    (["--lr", "-1"], "--lr and --wd must be numbers from 0 to 1e+30"), (["--lr", "nan"], "--lr and --wd must be numbers from"),
    (["--wd", "inf"], "--lr and --wd must be numbers from"), (["--lr", "1e300"], "--lr and --wd must be numbers from 0 to 1e+30"),
    (["--wd", "1e300"], "--lr and --wd must be numbers from"), (["--mom", "1"], "--mom must be between 0 and 1"),
    (["--mom", "nan"], "--mom must be between 0 and 1"), (["--clip-grad", "0"], "--clip-grad must be a number above 0"),
    (["--clip-grad", "nan"], "--clip-grad must be a number above 0"),
    (["--label-smoothing", "1.1"], "--label-smoothing must be between 0 and 1"), (["--seed", "-1"], "--seed must be between"),
    (["--seed", str(2**64)], "--seed must be between"),
    (["--augment", "mixup", "--alpha", "0"], "--alpha must be a number above 0"),
    (["--alpha", "nan"], "--alpha must be a number above 0"), (["--warmup", "-1"], "--warmup must not be negative"),
    (["--model", "resnet52"], "--model resnet52 is not a classification model of torchvision: try resnet"),
    (["--model", ""], "--model '' is not a classification model of torchvision: try resnet"),
    (["--model", "fasterrcnn_resnet50_fpn"], "is not a classification model"),
    (["--model", "vit_b_16", "--image-size", "100"], "--model vit_b_16 takes an --image-size that 16 divides"),
    (["--model", "inception_v3", "--image-size", "64"], "--model inception_v3 takes an --image-size from 75 up"),
    (["--model", "alexnet", "--image-size", "16"], "--model alexnet takes an --image-size from 63 up"),
    (["--model", "squeezenet1_0", "--image-size", "8"], "--model squeezenet1_0 takes an --image-size from 21 up"),
    (["--model", "vgg11", "--image-size", "16"], "--model vgg11 takes an --image-size from 32 up"),
    (["--image-size", "32", "-b", "1"], "--batch-size 1 leaves batch norm one value per channel in resnet18 at 32 pixels"),
    (["--device", "cuda"], "--device cuda: torch sees no GPU here"),
    (["--persistent-workers"], "--persistent-workers needs --num-workers"),
    (["--sync-bn"], "--sync-bn needs more than one process"), (["--resume"], "--resume needs --run-dir"),
    (["--find-unused-parameters"], "--find-unused-parameters needs more than one process"),
    (["--compile", "reduce-overhead", "--accumulate", "2"], "--compile reduce-overhead does not go with --accumulate"),
    (["--compile-blocks"], "--compile-blocks needs --compile"),
    (["--compile", "--compile-blocks", "--checkpoint-activations"], "--compile-blocks does not go with --checkpoint-activations"),
    (["--compile", "max-autotune", "--accumulate", "2"], "--compile max-autotune does not go with --accumulate"),
])
def test_what_is_refused_and_why(ask, argv, said):
    with pytest.raises(UsageError) as error:
        ask(*argv)
    assert str(error.value).startswith(said) or said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("argv, how, notes", [
    ([], {}, []),
    (["--tf32", "--pin-memory", "--non-blocking"], {}, ["--tf32", "--pin-memory", "--non-blocking"]),
    (["--tf32", "--pin-memory", "--non-blocking"], {"cuda": True}, []),
    (["--data", "random", "--num-workers", "2", "--drop-last", "--pin-memory"], {"cuda": True},
     ["--num-workers", "--pin-memory", "--drop-last"]),
    (["--num-workers", "4000", "--data", "random"], {}, ["--num-workers"]),
    (["--test", "-e", "3"], {}, ["--epochs"]), (["--test-steps", "3"], {}, ["--test-steps"]),
    (["--test", "--test-steps", "3"], {}, []), (["--schedule", "onecycle", "--mom", "0.8"], {}, ["--mom"]),
    (["--sync-bn"], {"cuda": True, "world": 2}, []), (["--optimizer", "lion", "--fused"], {}, ["--fused"]),
    (["--optimizer", "lamb", "--decay", "weights"], {}, []), (["--optimizer", "lamb", "--wd", "0"], {}, []),
    (["--alpha", "0.5"], {}, ["--alpha"]), (["--augment", "randaugment", "--alpha", "0.5"], {}, ["--alpha"]),
    (["--augment", "cutmix", "--alpha", "0.5", "--data", "random"], {}, []),
    (["--augment", "randaugment", "--data", "random"], {}, ["--augment randaugment"]),
    (["--augment", "mixup-cpu", "--data", "random"], {}, ["--augment mixup-cpu"]),
])
def test_what_has_no_effect_is_said(ask, argv, how, notes):
    found, _ = ask(*argv, **how)
    assert [note.split(" has no effect")[0] for note in found] == notes


@pytest.mark.parametrize("model, size", [("resnet18", 33), ("resnet18", 224), ("alexnet", 63), ("squeezenet1_0", 21),
                                         ("vgg11", 32), ("inception_v3", 75), ("vit_b_16", 32)])
def test_a_size_that_a_model_takes_is_not_refused(ask, model, size):
    args = ask("--model", model, "--image-size", size)[1]
    net = torchvision.models.get_model(model, weights=None, num_classes=2, **options.for_model(args))
    net(torch.zeros(2, 3, size, size))


@pytest.mark.parametrize("images, drop_last, size, refused", [
    (26, False, 32, True), (26, True, 32, False), (26, False, 64, False), (27, False, 32, False), (25, False, 32, False),
])
def test_a_last_batch_of_one_image(ask, images, drop_last, size, refused):
    args = ask("--image-size", size, "-b", 5)[1]
    steps = images // 5 if drop_last else -(-images // 5)
    with pytest.raises(UsageError, match=r"the last batch of an epoch has one image, .* in resnet18 at 32 pixels") if refused \
            else contextlib.nullcontext():
        assert options.epoch_lengths(args, steps, images, []) == [steps]
    args = ask("--image-size", size, "-b", 5, "--test", "--test-steps", 3)[1]
    assert options.epoch_lengths(args, steps, images, []) == [3]  # it ends before that batch


def test_a_single_image_a_process_is_enough_for_batch_norm_over_all(ask):
    ask("--image-size", 32, "-b", 1, "--sync-bn", world=2, cuda=True)


def test_accumulating_more_than_an_epoch_is_noted(ask):
    args = ask("--accumulate", 8)[1]
    notes = []
    assert options.epoch_lengths(args, 6, None, notes) == [6]
    assert notes[0].startswith("--accumulate 8 has no effect beyond the 6 batches of an epoch") and len(notes) == 1
    assert options.epoch_lengths(args, 8, None, notes) == [8] and len(notes) == 1


def test_the_last_epoch_may_be_cut_off_and_its_last_group_smaller(ask):
    args = ask("--test", "--test-steps", 13, "--accumulate", 3)[1]
    lengths = options.epoch_lengths(args, 8, 16, [])
    assert lengths == [8, 5] and options.updates(args, lengths) == 3 + 2
    with pytest.raises(UsageError, match="3 images per process are not one batch of"):
        options.epoch_lengths(args, 0, 3, [])


def test_more_workers_than_cores_are_noted(ask, monkeypatch):
    monkeypatch.setattr(options.machine, "cores_allowed", lambda: 4)
    assert ask("--num-workers", "4")[0] == []
    (said,) = ask("--num-workers", "5")[0]
    assert said == "--num-workers 5 is more than the cores that this process may use, 4: workers take turns"
    args = ask("--num-workers", "3")[1]
    procs = Processes(world_size=2, local_size=2, launcher="torchrun")
    assert "may use, 2: workers take turns" in options.settle(args, procs, False, MODELS)[0]


def test_the_device_that_is_used(ask):
    assert ask()[1].device == "cpu" and ask(cuda=True)[1].device == "cuda"
    assert ask("--device", "cpu", cuda=True)[1].device == "cpu"
    assert ask("--pin-memory")[1].pin_memory is False and ask("--pin-memory", cuda=True)[1].pin_memory is True


def test_a_run_says_which_switches_it_had(ask):
    _, args = ask("--amp", "bf16", "-b", "8", "--seed", "1")
    said = options.describe(args, Processes(world_size=2))
    assert said["switches"] == {"amp": "bf16", "batch_size": 8}  # the seed is what it always is
    assert said["args"]["seed"] == 1 and said["global_batch"] == 16 and "switches" not in said["args"]


def test_what_a_model_must_be_told():
    said = {name: options.for_model(Namespace(model=name, image_size=96)) for name in ("resnet18", "vit_b_16", "googlenet")}
    assert said == {"resnet18": {}, "vit_b_16": {"image_size": 96}, "googlenet": {"aux_logits": False, "init_weights": True}}


# Real runs


REFUSED = {
    "unknown model": ["--model", "resnet52"], "no workers to keep": ["--persistent-workers"], "no GPU": ["--device", "cuda"],
    "resume what": ["--resume"], "negative": ["-b", "-4"], "no such folder": ["--data", "/nowhere"],
}


@pytest.mark.parametrize("why", [why for why in REFUSED if why != "no such folder"])
def test_refused_before_anything_is_made(training, why):
    work = training.tmp / "work"
    work.mkdir()
    run = training.server.start(work, ["--test", *REFUSED[why]], cwd=work).wait()
    assert run.code == 2 and run.err.count("\n") == 1 and run.err.startswith("train.py: ") and not run.out
    assert not list(work.iterdir())


def test_a_refusal_leaves_no_run_that_nobody_named(training):
    work = training.tmp / "work"
    work.mkdir()
    run = training.server.start(work, REFUSED["no such folder"], cwd=work).wait()
    assert run.code == 2 and run.err.count("\n") == 1 and not list((work / "runs").iterdir())


def test_refused_once_by_many_ranks(training):
    ranks = training.start_ranks("run", 2, "--prefetch-factor", 2)
    assert [rank.wait().code for rank in ranks] == [2, 2]
    assert (ranks[0].err + ranks[1].err).count("\n") == 1 and not list(ranks[0].folder.iterdir())


# What changes how a step is computed, by two and two; a row is a run. Each pair of values of two columns is in some row.
COLUMNS = {
    "model": ["tiny", "tiny_bn", "tiny_dropout"],
    "data": ["folder", "random"],
    "optimizer": [("sgd",), ("adamw",), ("sgd", "--fused"), ("adamw", "--fused")],
    "schedule": ["constant", "onecycle", "cosine"],
    "amp": ["off", "bf16", "fp16"],
    "compile": [None, "default", "max-autotune-no-cudagraphs"],
    "accumulate": ["1", "2", "4"],
    "metric": ["1", "3"],
    "loader": [(), ("--num-workers", "1"), ("--num-workers", "2", "--persistent-workers", "--prefetch-factor", "1"),
               ("--drop-last",)],
    "world": [1, 2],
    "clip": [(), ("--clip-grad", "0.5")],
    "channels": [(), ("--channels-last",)],
    "recompute": [(), ("--checkpoint-activations",)],
    "profile": [(), ("--profile",)],
    "checkpoint": [(), ("--checkpoint-every", "2"), ("--checkpoint-every", "3", "--resume")],
    "test": [(), ("--test", "--test-steps", "7")],
    "augment": [(), ("--augment", "randaugment"), ("--augment", "mixup-cpu", "--alpha", "1"), ("--augment", "mixup"),
                ("--augment", "cutmix-loop"), ("--augment", "cutmix")],
    "rest": [(), ("--label-smoothing", "0.1", "--no-chronometer"), ("--tf32", "--pin-memory", "--non-blocking", "--wd", "0")],
}


def covering(columns: dict[str, list]) -> list[dict]:
    """Rows that hold every pair of values of every two columns: each takes, one by one, what covers most of what is left."""
    cells = [(name, number) for name, values in columns.items() for number in range(len(values))]
    left = {frozenset(pair) for pair in itertools.combinations(cells, 2) if pair[0][0] != pair[1][0]}
    rows = []
    while left:
        row = dict(min(left, key=sorted))
        for name, values in columns.items():
            if name not in row:
                gains = [sum(frozenset(((name, n), cell)) in left for cell in row.items()) for n in range(len(values))]
                row[name] = gains.index(max(gains))
        left -= {frozenset(pair) for pair in itertools.combinations(row.items(), 2)}
        rows.append({name: values[row[name]] for name, values in columns.items()})
    return rows


def test_the_rows_cover_every_pair():
    rows = covering(COLUMNS)
    for a, b in itertools.combinations(COLUMNS, 2):
        pairs = {(str(row[a]), str(row[b])) for row in rows}
        assert len(pairs) == len(COLUMNS[a]) * len(COLUMNS[b])
    assert len(rows) < 40


def _argv(row, folder):
    argv = ["--model", row["model"], "--data", "random" if row["data"] == "random" else folder, "--optimizer", *row["optimizer"],
            "--schedule", row["schedule"], "--amp", row["amp"], "--accumulate", row["accumulate"],
            "--metric-every", row["metric"]]
    argv += ["--compile", row["compile"]] if row["compile"] else []
    for name in ("loader", "clip", "channels", "recompute", "profile", "checkpoint", "test", "rest"):
        argv += row[name]
    return argv if row["data"] != "random" or row["test"] else [*argv, "--test", "--test-steps", "9"]  # or 100 steps


def rows():
    """All in `make test-all`; in `make test` every third."""
    for number, row in enumerate(covering(COLUMNS)):
        yield pytest.param(row, id=row["model"], marks=[pytest.mark.long] if number % 3 else [])


@pytest.mark.parametrize("row", list(rows()))
def test_what_is_accepted_runs(training, training_images, row):
    argv = [*_argv(row, training_images), "--lr", "0.001", "-b", "4"]
    not_really = "import torch._dynamo\ntorch._dynamo.config.disable = True"  # compiling takes a minute: see test_train.py
    run = training.run_ranks("run", row["world"], *argv, before=not_really)
    record = run.record
    steps, total = record.progress
    assert steps == total == len(record.steps) == record.end["steps"] and record.end["status"] == "completed"
    assert len(record.validations) == len({step["epoch"] for step in record.steps})
    assert {name: step for name, step in record.steps[-1].items() if name in ("loss", "accuracy")}.keys() == {"loss", "accuracy"}
    assert record.torn == 0 and not record.errors and record.start["world_size"] == row["world"]
    assert bool(row["profile"]) == record.end["trace"]
    assert bool(row["checkpoint"]) == (run.folder / "checkpoint.pt").exists()
    phases = ("idle", "copy", "forward", "backward", "update")
    for step in record.steps:
        if "--no-chronometer" in row["rest"]:
            assert "forward" not in step
        else:
            assert sum(step[phase] for phase in phases) == pytest.approx(step["seconds"], abs=1e-5)


def test_small_images_have_a_small_model_unless_asked_otherwise(script, monkeypatch):
    monkeypatch.setenv("DLOJZ_SITE", "laptop")
    args = script.arguments(["--data", "tiny"])
    assert (args.model, args.image_size, args.switches) == ("small_resnet", 32, {"data": "tiny"})
    usual = script.arguments([])
    args = script.arguments(["--data", "tiny", "--model", usual.model, "--image-size", str(usual.image_size)])
    assert (args.model, args.image_size) == (usual.model, usual.image_size) and usual.model != "small_resnet"


def test_a_sweep_is_for_one_process(ask):
    with pytest.raises(UsageError, match="--find-lr needs one process"):
        ask("--find-lr", world=2, cuda=True)
