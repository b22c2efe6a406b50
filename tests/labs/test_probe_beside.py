"""A trainee's run beside the kit's own: what is compared, which files run, what is kept, and the words for what differs."""

import gzip
from types import SimpleNamespace

import pytest

from dlojz.labs import catalogue, checking, fences, workspace
from dlojz.labs.checking import run_check
from dlojz.labs.outcome import CANNOT_CHECK, SOLVED, WRONG
from dlojz.labs.probe import Limits, Probe, Session, claim, compare, kept
from dlojz.labs.probe.beside import Beside, plural
from dlojz.labs.probe.copies import Copies
from dlojz.labs.probe.facts import Facts, ending

PLENTY = Limits(seconds=60)
COMPARED = {"a": ("value", "~rough"), "b": ("tensor",), "c": ()}


# ------------------------------------------------------------------------------------------------------------- comparing
def facts(*ranks):
    """Runs of which each fact is (kind, step, values)."""
    events = [[{"what": what, "step": step, "line": None, "file": None, "by": "own", **values} for what, step, values in rank]
              for rank in ranks]
    return Facts.kept(events, None, "script.py", "script.py", {})


def found(mine, kits, **how):
    mine, kits = (facts(*runs) if isinstance(runs, tuple) else facts(runs) for runs in (mine, kits))
    return [(each.name, each.step) for each in compare.differences(mine, kits, COMPARED, **how)]


def a(step, value, **more):
    return "a", step, {"value": value, **more}


def test_the_earliest_comes_first():
    kits = [a(1, 1), a(2, 2), ("c", 2, {}), a(3, 3)]
    assert found(kits, kits) == []
    assert found([a(1, 1), a(2, 9), a(3, 9)], kits) == [("a.value", 2), ("c.missing", 2), ("a.value", 3)]
    assert found([a(1, 1), ("c", 1, {}), *kits[1:]], kits) == [("c.extra", 1)]
    assert found(kits[:2], kits) == [("c.missing", 2), ("a.missing", 3)]


def test_facts_of_a_step_are_held_against_those_of_the_same_step():
    kits = [a(1, 1), a(1, 2), a(2, 3)]
    assert found([a(1, 1), a(2, 3)], kits) == [("a.missing", 1)], "what comes later is not shifted"


@pytest.mark.parametrize("one, other, least, same", [
    (1, 1.0, "float32", True), (1.0, 1.00001, "float32", True), (1.0, 1.001, "float32", False), (True, 1, "float32", True),
    ([1, [2.0]], [1, [2.00001]], "float32", True), ({"x": 1}, {"x": 1, "y": 2}, "float32", False), (None, 0, "float32", False),
    (float("inf"), float("inf"), "float32", True), (float("nan"), 1.0, "float32", False), ("a", "a", "float32", True)])
def test_values(one, other, least, same):
    assert (found([a(1, one)], [a(1, other)], least=least) == []) == same


@pytest.mark.parametrize("least, off, same", [("float32", 0.001, True), ("float32", 0.01, False), ("float16", 0.01, True),
                                              ("float16", 0.03, False), ("bfloat16", 0.03, True), ("bfloat16", 0.06, False)])
def test_a_rough_value_may_be_off_by_what_its_format_rounds(least, off, same):
    print_of = [{"norm": norm, "seen": [0.3 * norm] * 4} for norm in (1.0, 1.0 + off)]
    for one, other in ((1.0, 1.0 + off), print_of):
        assert (found([a(1, 0, rough=one)], [a(1, 0, rough=other)], least=least) == []) == same
        assert found([a(1, one)], [a(1, other)], least=least) == [("a.value", 1)], "what is exact may not"


def test_tensors_by_part_and_another_direction():
    def tensor(**parts):
        whole = {"dtype": "float32", "shape": [2], "mark": {"norm": 1.0, "seen": [0.5, 0.5, 0.5, 0.5]}}
        return [("b", 1, {"tensor": [whole, whole | parts]})]

    assert found(tensor(dtype="float16"), tensor()) == [("b.tensor.dtype", 1)]
    assert found(tensor(mark={"norm": 1.0, "seen": [0.5, -0.5, 0.5, 0.5]}), tensor()) == [("b.tensor.mark", 1)]
    assert found([("b", 1, {"tensor": []})], tensor()) == [("b.tensor", 1)]


def test_each_rank_is_compared_with_its_own():
    kits = [a(1, 1), a(2, 2)], [a(1, 10), a(2, 20)]
    assert found(kits, kits) == []
    differ = compare.differences(facts([a(1, 1), a(2, 9)], [a(1, 9), a(2, 20)]), facts(*kits), COMPARED)
    assert [(each.step, each.facts.said) for each in differ] == [(1, "`script.py (rank 1)`"), (2, "`script.py`")]


def pair(mine, kits):
    return Beside(facts(mine), facts(kits), "", None)


def test_the_most_specific_row_that_fits_and_the_first_step_that_differs():
    both = pair([a(1, 1, more="x"), a(2, 7)], [a(1, 1, more="y"), a(2, 8)])
    both.same("a", look="lab.one", saw="a of {mine}")
    both.same("a.value", look=lambda each: "lab.two", saw=lambda each: f"value {each.mine}", expected="{kits}")
    trouble = both.trouble()
    assert (trouble.saw, trouble.expected, trouble.look) == ("`script.py`, step 2: value 7", "8", "lab.two")
    both.same("a.more", look="lab.three", saw="more {mine}")  # not compared before
    assert both.trouble().saw == "`script.py`, step 1: more x"
    both.may_differ("a.more", "a.value")
    assert both.trouble() is None


def test_what_no_row_names_is_refused_with_its_name_and_step():
    both = pair([("ended", 0, {"status": 1})], [("ended", 0, {"status": 2})])
    trouble = both.trouble()
    assert trouble.saw == "`script.py`, before the first step: `ended.status` is 1" and not trouble.named
    assert pair([("n", 3, {})], [("saved", 2, {}), ("n", 3, {})]).trouble().saw == "`script.py`, step 2: no `saved`"
    assert pair([("n", 2, {})], [("n", 3, {})]).trouble() is None, "a kind of fact that nobody compares"


def test_what_any_fence_may_break_has_words_of_its_own():
    flags = {"default dtype": "float32", "threads": 1}
    kits = [("torch", 0, {"flags": flags}), ("recorded", 1, {"accuracy": 0.5}), ("arguments", 1, {"args": {"lr": 0.1}})]
    for place, changed, saw in (
            (0, {"flags": flags | {"threads": 2}}, "before the first step: torch's setting `threads` is 2"),
            (1, {"accuracy": 0.25}, "step 1: the accuracy that goes into the record is 0.25"),
            (2, {"args": {"lr": 0.2}}, "step 1: at the end of the training `args.lr` is 0.2")):
        mine = [(what, step, changed if number == place else given) for number, (what, step, given) in enumerate(kits)]
        trouble = pair(mine, kits).trouble()
        assert trouble.saw == f"`script.py`, {saw}" and not trouble.named


def test_a_setting_is_named_and_not_the_crash_that_it_leads_to():
    both = pair([("torch", 0, {"flags": {"default device": "cuda:0"}})], [("torch", 0, {"flags": {"default device": "cpu"}})])
    both.mine._ended = ending({"line": 4, "file": "script.py"}, "error", "stops with RuntimeError: Found no NVIDIA driver")
    assert both.trouble().saw == "`script.py`, before the first step: torch's setting `default device` is cuda:0"


def test_a_model_that_learns_in_eval_mode_comes_before_what_follows_from_it():
    def run(evaluating, after=0):
        step = 0 if evaluating else 1
        return [("model", step, {"training": not evaluating, "evaluating": 9 * evaluating + after}), ("backward", step, {}),
                ("update", step, {}), ("model", 1, {"training": False, "evaluating": 9})]  # the last one is a validation

    assert pair(run(False), run(False)).trouble() is None
    both = pair(run(True), run(False))
    both.same("update", look="its.fence", saw="the optimizer steps after batch 0")
    assert both.trouble().saw == "`script.py`, step 1: the model is in eval mode while it trains"
    assert "step 1: 2 of the model's modules are in eval mode" in pair(run(False, 2), run(False)).trouble().saw
    assert pair(run(False, 2), run(False, 2)).trouble() is None, "as the kit's own"


def test_a_run_that_exits_early():
    kits = [("saved", step, {}) for step in (1, 2, 3)]
    assert pair(kits[:2], kits).trouble().saw == "`script.py` exits early, with exit code 0 after 2 steps"


def test_a_claim_says_what_it_has_seen():
    @claim("all is even", look="lab.even")
    def even(run, but):
        odd = next((each for each in run.all("n") if each.n % 2 and each.n != but), None)
        return odd and (f"{odd.n} is odd", odd)

    both = pair([("n", 1, {"n": 3})], [("n", 1, {"n": 3})])
    both.holds(even, 3)
    assert both.trouble() is None
    both.holds(even, 5)
    trouble = both.trouble()
    assert (trouble.saw, trouble.expected, trouble.look.n) == ("3 is odd", "all is even", 3)


def test_what_a_wrong_run_says_too_is_not_verified(monkeypatch):
    """Several runs may say the same sentence: it is verified where all of them are right."""
    sentences = [["placed", "once"], ["placed", "late"], ["once more", "once"]]
    probe = SimpleNamespace(pairs=[SimpleNamespace(sentences=said) for said in sentences], verified=["before"], runs=[])
    outcomes = iter([None, (WRONG, "Seen: …")])
    monkeypatch.setattr(checking, "_check_of", lambda lab: lambda probe: None)
    monkeypatch.setattr(checking, "_compared", lambda *_: next(outcomes))
    assert checking._judged(SimpleNamespace(lab="gpu"), probe) == (WRONG, "Seen: …")
    assert probe.verified == ["before"]
    probe.pairs[2].sentences.pop()
    probe.verified, outcomes = ["before"], iter([None, (WRONG, "Seen: …")])
    checking._judged(SimpleNamespace(lab="gpu"), probe)
    assert probe.verified == ["before", "once"]


def test_a_run_that_broke_off_is_judged_by_the_claims_that_say_so_and_then_by_who_waited():
    ranks = [("n", 1, {"n": 3})], []
    both = Beside(facts(*ranks), facts(*ranks), "", None)
    both.mine._ended = ending({"line": 4, "file": "script.py"}, "error", "stops with RuntimeError: Connection closed by peer")
    both.holds(claim("no odd number", look="lab.even")(lambda run: "3 is odd"))
    trouble = both.trouble()
    assert trouble.saw == "`script.py`: rank 0 waits in line 4 for rank 1, which has ended: it never called it"
    assert trouble.event.line == 4
    both.holds(claim("one number", look="lab.one", always=True)(lambda run: len(run.all("n")) == 1 and "one alone"))
    assert (both.trouble().saw, both.trouble().expected) == ("one alone", "one number")


# ----------------------------------------------------------------------------------------------------------------- copies
@pytest.fixture
def folder(tmp_path):
    """A workspace in which all is solved."""
    workspace.create(tmp_path / "work", ["all"])
    return tmp_path / "work"


def write(folder, fence, body):
    lab = next(lab for lab in catalogue.labs().values() if fence in lab.stubs)
    file = folder / lab.file_of(fence)
    file.write_text(fences.replace(file.read_text(), {fence: body}, lab.file_of(fence)))
    return file


def test_lines_of_a_copy_are_those_of_the_trainee_s_file(folder, tmp_path):
    file = write(folder, "amp.update", "# mine\n" * 20 + "optimizer.step()\n")
    file = write(folder, "amp.forward", "outputs, loss = 1, 2\n")
    copy = Copies(folder, tmp_path / "copies", catalogue.lab("amp")).copy(["amp.update", "amp.forward"])
    new, old = (path.read_text().splitlines() for path in (copy.root / "train.py", file))
    inside = fences.find("\n".join(new)).fences
    for number, line in enumerate(new, 1):
        there = copy.line("train.py", number)
        fence = next((each for each in ("amp.update", "amp.forward") if inside[each].first < number < inside[each].last), None)
        assert old[there - 1] == line if fence is None else f">>> {fence}" in old[there - 1]
    assert copy.line("augment.py", 5) == 5 and copy.line(None, None) is None


def test_which_fences_are_the_trainee_s_own(folder, tmp_path):
    write(folder, "amp.update", "optimizer.step()\n")
    write(folder, "gpu.batch", "images = images.cuda()\n")
    write(folder, "ddp.wrap", catalogue.lab("ddp").stubs["ddp.wrap"])
    copies = Copies(folder, tmp_path / "copies", catalogue.lab("amp"))
    assert copies.answered() == ["amp.update"] and copies.others() == ["gpu.batch"] and copies.damaged() == []
    assert copies.fences_of(["gpu", "amp.update"]) == ["gpu.device", "gpu.model", "gpu.batch", "amp.update"]
    file = folder / "train.py"
    file.write_text(file.read_text().replace("# >>> amp.forward", "# amp.forward"))
    copies = Copies(folder, tmp_path / "more", catalogue.lab("amp"))
    assert copies.damaged() == ["amp.forward"]
    whole = (copies.copy(copies.lab_fences(), whole=True).root / "train.py").read_text()
    assert fences.find(whole).fences["ddp.wrap"].body == catalogue.lab("ddp").stubs["ddp.wrap"]
    assert fences.find(whole).fences["amp.forward"].body == catalogue.reference_fences("train.py")["amp.forward"].body


def test_a_copy_holds_what_a_script_may_import(folder, tmp_path):
    for name in ("mine.py", "tools/more.py", "runs/one/job.py", "runs/job.py", "backup/old.py", ".git/hook.py", "data/notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")
    (folder / "large.py").write_text("# " + "x" * 2**21)
    root = Copies(folder, tmp_path / "copies").copy().root
    there = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert there == {*catalogue.files(), "mine.py", "tools/more.py"}


# ------------------------------------------------------------------------------------------------------ the kit's own runs
@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DLOJZ_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "checks"


@pytest.fixture(scope="module")
def host():
    with Session(PLENTY) as session:
        session.ready()
        yield session


def test_what_is_kept_of_a_run(cache):
    ranks = [[{"what": "a", "step": 1, "value": 0.1}], []]
    assert kept.load("no") is None
    kept.store("yes", ranks)
    assert kept.load("yes") == ranks and [file.name for file in cache.iterdir()] == ["yes.json.gz"]
    for damage in (b"", b"no gzip", gzip.compress(b"[1,"), gzip.compress(b"\xff")):
        (cache / "yes.json.gz").write_bytes(damage)
        assert kept.load("yes") is None
    request = {"switches": "--amp bf16", "files": "1"}
    assert kept.key(request) == kept.key(dict(request)) != kept.key(request | {"files": "2"})


def test_the_oldest_are_removed(cache, monkeypatch):
    monkeypatch.setattr(kept, "MOST", 2)
    for name in "abc":
        kept.store(name, [])
    assert len(list(cache.iterdir())) == 2 and kept.load("c") == []


def started(host, monkeypatch):
    """The commands of the runs that are started from here on."""
    commands, start = [], host.start

    def noting(root, script, arguments, **more):
        commands.append(" ".join(arguments).split(".5 ")[-1])
        return start(root, script, arguments, **more)

    monkeypatch.setattr(host, "start", noting)
    return commands


def test_the_kit_runs_once_for_many_answers(folder, host, cache, monkeypatch):
    commands = started(host, monkeypatch)
    assert run_check("channels_last", folder, PLENTY, host).state == SOLVED
    cold = len(commands)
    write(folder, "channels_last.batch",
          "if args.channels_last:\n    images = images.contiguous(memory_format=torch.channels_last)\n")
    assert run_check("channels_last", folder, PLENTY, host).state == SOLVED
    assert len(commands) - cold == cold // 2, "the trainee's runs alone"


def test_where_the_kit_s_own_answer_does_not_run_the_fault_is_outside(folder, host, cache):
    file = folder / "train.py"
    file.write_text(file.read_text().replace("criterion = nn.CrossEntropyLoss(", "criterion = nn.CrossEntropy(", 1))
    outcome = run_check("channels_last", folder, PLENTY, host)
    assert outcome.state == CANNOT_CHECK and "outside this lab's fences" in outcome.message, outcome
    assert "AttributeError" in outcome.message and "CrossEntropy(" in outcome.message
    assert not cache.exists(), "a run that has failed is not kept"


# Two: with three, five or more torch 2.14 crashes on a CPU with AVX-512 in the backward pass of the probe's network, which has
# 1x1 convolutions of 8 channels with a stride, channels-last.
def test_a_fact_that_no_row_names(folder, host, cache):
    write(folder, "channels_last.model", "if args.channels_last:\n    net = net.to(memory_format=torch.channels_last)\n"
                                         "torch.set_num_threads(2)\n")
    outcome = run_check("channels_last", folder, PLENTY, host)
    assert outcome.state == WRONG and "torch's setting `threads` is 2" in outcome.message, outcome
    assert "Where to look: the fence channels_last.model" in outcome.message


def test_what_another_lab_does_is_forgiven_where_no_row_names_it(folder, host, cache):
    body = catalogue.reference_fences("train.py")["amp.update"].body
    write(folder, "amp.update", body + "torch.set_num_threads(2)\n")
    outcome = run_check("channels_last", folder, PLENTY, host)
    assert outcome.state == SOLVED, outcome


@pytest.mark.parametrize("fence, body", [
    ("amp.forward", "outputs = model(images)\nloss = criterion(outputs, labels)\n"),
    ("amp.update", "scaler.step(optimizer)\nscaler.update()\n"),
])
def test_the_fence_that_mends_it_is_named(folder, host, cache, fence, body):
    """All others hold something else than the kit's, too."""
    every = catalogue.reference_fences("train.py")
    for other in catalogue.lab("amp").fences:
        write(folder, other, f"_own = None\n{body if other == fence else every[other].body}")
    outcome = run_check("amp", folder, PLENTY, host)
    assert outcome.state == WRONG and f"Where to look: the fence {fence}," in outcome.message, outcome


# -------------------------------------------------------------------------------------------------- functions side by side
CALLS = """
import torch

def batches():
    for dtype in (torch.float32, torch.uint8):
        images = torch.randint(0, 255, (6, 3, 8, 8)).to(dtype)
        yield f"6 {str(dtype)[6:]} images", (images, torch.eye(6), torch.rand(6), torch.randperm(6))
"""
SHARE = "share = lam[:, None, None, None]\nmixed = share * images + (1 - share) * images[partner]\n"
ROUNDED = "mixed = mixed if images.is_floating_point() else mixed.round()\n"
SOFT = "lam[:, None] * targets + (1 - lam[:, None]) * targets[partner]\n"
WRONG_FUNCTIONS = {
    f"{SHARE}return mixed.to(images.dtype), {SOFT}": "6 uint8 images: part 1 of the result is",
    f"{SHARE}return mixed, {SOFT}": "6 uint8 images: part 1 of the result is float32",
    f"{SHARE}return mixed.round().to(images.dtype)[:3], {SOFT}": "part 1 of the result has the shape [3, 3, 8, 8]",
    f"{SHARE}return mixed.round().to(images.dtype)": "the result is a tensor",
    f"{SHARE}{ROUNDED}images[0] = 0\nreturn mixed.to(images.dtype), {SOFT}": "argument 1 is changed",
    f"torch.rand(1)\n{SHARE}{ROUNDED}return mixed.to(images.dtype), {SOFT}": "takes other numbers from torch's generator",
    "return images.nothing\n": "stops with AttributeError",
    f"import time; time.sleep(0.02)\n{SHARE}{ROUNDED}return mixed.to(images.dtype), {SOFT}":
        "times as long as the kit's function",
}


@pytest.mark.parametrize("part, are", [
    ("the weights", True), ("logits held at one time", True), ("net.gradients", True), ("losses", True),
    ("the number of updates", False), ("the loss", False), ("its bias", False), ("what learns", False),
    ("what another epoch gives", False), ("part 1 of the result", False)])
def test_parts_in_the_plural_are(part, are):
    assert plural(part) == are


@pytest.mark.parametrize("body, said", [(None, ""), *WRONG_FUNCTIONS.items()], ids=str)
def test_a_function_beside_the_kit_s(folder, host, tmp_path, body, said):
    (tmp_path / "calls.py").write_text(CALLS)
    if body:
        write(folder, "augmentation.mixup", body)
    host.begin(PLENTY)
    probe = Probe(host, folder, "augment.py", tmp_path / "calls.py", lab=catalogue.lab("augmentation"))
    trouble = probe.call_beside("augment.py", "mixup", "batches", look="augmentation.mixup", at_most=5.0, repeat=3).trouble()
    host.stop()
    assert said in (trouble.saw if trouble else ""), trouble
    assert (trouble is None) == (body is None)
    if "uint8 images: part 1 of the result is" in said and "float32" not in said:
        assert "at [" in trouble.saw and "differ by up to 1" in trouble.expected


# ------------------------------------------------------------------------------------------------ any script that trains
@pytest.fixture
def run(host, tmp_path):
    def run(code, **how):
        (tmp_path / "script.py").write_text(code)
        host.begin(PLENTY)
        found = Probe(host, tmp_path, "script.py").run("", small=False, **how)
        assert found.completed, f"{found.ended} {host.text()}"
        return found

    return run


PLAIN = """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(net.parameters(), 0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
for step in range(3):
    x, y = torch.randn(5, 4), torch.randn(5, 1)
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    nn.utils.clip_grad_value_(net.parameters(), 0.1)
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()
"""


def test_a_plain_script_is_observed(run):
    found = run(PLAIN, spy=["torch.nn.utils.clip_grad_value_", "torch.randn"])
    losses = [(each.function, each.computes, each.target["shape"]) for each in found.all("loss")]
    assert losses == [("mse_loss", "float32", [5, 1])] * 3
    assert [each.step for each in found.all("update")] == [1, 2, 3] == [each.step for each in found.all("updated")]
    assert [each.lr for each in found.all("update")] == [[0.1], [0.1], [0.05]]
    assert [each.lr for each in found.all("schedule")] == [[0.1], [0.05], [0.05]]
    assert found.need("made").kind == "AdamW" and found.need("made").settings["lr"] == 0.1
    assert [(each.kind, each.computes) for each in found.all("layer", step=1)] == [("Linear", "float32"), ("ReLU", None),
                                                                                  ("Linear", "float32")]
    called = found.all("call", name="torch.nn.utils.clip_grad_value_")
    assert len(called) == 3 and called[0].args[1] == "0.1" and called[0].line == 13
    used = {(each.step, each.name) for each in found.all("used")}
    assert (1, "torch.randn") in used or (0, "torch.randn") in used


def test_two_runs_of_it_are_the_same_and_another_seed_is_not(run):
    one, other, third = (run(PLAIN), run(PLAIN), run(PLAIN.replace("manual_seed(0)", "manual_seed(1)")))
    both = Beside(one, other, "", None)
    assert both.differences(one) == []
    assert {"model.values", "updated.change"} <= {each.name for each in Beside(third, one, "", None).differences(third)}


# ---------------------------------------------------------------------------------------------- what observers note of train.py
@pytest.fixture
def train(host, tmp_path):
    """Runs train.py, the labs of day 1 solved and some fences with other bodies, under the observers."""
    def train(switches, bodies, **options):
        solved = [lab.id for lab in catalogue.labs().values() if lab.place <= catalogue.lab("channels_last").place]
        (tmp_path / "train.py").write_text(fences.replace(catalogue.laid_out("train.py", solved), bodies))
        for name in catalogue.files():
            if name != "train.py" and "/" not in name:
                (tmp_path / name).write_text(catalogue.laid_out(name, solved))
        host.begin(PLENTY)
        found = Probe(host, tmp_path).run(switches, **options)
        assert found.completed, f"{found.ended} {host.text()}"
        return found

    return train


def test_what_the_kit_tells(train):
    """By its listeners, not by patches of its functions."""
    found = train("--device cpu --checkpoint-every 2", {})
    assert [each.step for each in found.all("recorded")] == [1, 2, 3, 4] and [each.at for each in found.all("saved")] == [2, 4]
    assert found.need("started").args["checkpoint_every"] == 2 and found.need("ended").status == "completed"
    assert found.need("validation").images == 4 and len(found.all("batch")) == 4
    losses = found.all("loss", training=True)
    assert [each.loss for each in found.all("recorded")] == pytest.approx([each.value for each in losses], rel=1e-5)


def test_a_backward_pass_is_noted_once(train):
    body = "scaled = loss / group\ntorch.autograd.backward([scaled], [torch.full_like(scaled, 8)], retain_graph=True)"
    found = train("--device cpu", {"amp.backward": body})
    assert [each.step for each in found.all("backward")] == [1, 2, 3, 4]
    assert all(each.retains and each.scaled and each.scale == pytest.approx(8) == each.times for each in found.all("backward"))


@pytest.mark.parametrize("copy, waits", [
    ("to(device)", True), ("to(device, non_blocking=True)", False), ("to(device, None, True)", False), ("to(sums, True)", False),
    ("cuda()", True), ("cuda(1, True)", False), ("cuda(non_blocking=True)", False),
])
def test_copies_that_do_not_wait(train, copy, waits):
    body = f"images = images.{copy}\n" \
           f"labels = torch.empty_like(labels, device=device).copy_(labels, {not waits})"
    found = train("--device cuda", {"gpu.batch": body}, gpus=2, local_rank=1)
    moves = found.all("move", step=2, target="cuda:1")
    assert [(len(move.shape), move.non_blocking) for move in moves] == [(4, not waits), (1, not waits)]


@pytest.mark.parametrize("use, backs, waits", [
    ("images.float()", 0, 0), ("labels.half()", 0, 0), ("images[0].to(torch.int32)", 0, 0), ("labels.cpu()", 1, 0),
    ("print(labels)", 0, 1), ("torch.cuda.empty_cache()", 0, 1), ("f'{labels[0]}'", 0, 1),
])
def test_what_comes_back_from_a_pretended_gpu(train, use, backs, waits):
    body = f"images = images.to(device)\nlabels = labels.to(device)\nif device.type == 'cuda':\n    {use}"
    found = train("--device cuda", {"gpu.batch": body}, gpus=2)
    assert len(found.all("move", step=2, target="cpu", by="own")) == backs
    assert min(1, len(found.all("sync", step=2, by="own"))) == waits
