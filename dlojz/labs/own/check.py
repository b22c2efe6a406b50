"""own: of each script that you have mended the audit says that nothing is used wrongly, and it trains what it trained before."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from dlojz.labs import audit, catalogue
from dlojz.labs.audit.judge import UNSEEN, USED, WRONG
from dlojz.labs.checking import claim, expect
from dlojz.labs.probe import Event
from dlojz.labs.probe import observe as observers
from dlojz.system import paths
from dlojz.system.errors import UsageError

PLANTED = {
    "own.images": ("gradients cleared once per update", "losses kept without their graphs", "schedule after the update",
                   "train mode in training"),
    "own.words": ("clipping after unscaling", "backward pass outside of autocast", "another order in each epoch",
                  "gradients cleared once per update"),
    "own.trainer": ("losses kept without their graphs", "validation without gradients", "another order in each epoch",
                    "backward pass outside of autocast"),
}
SMALL = {"own.images": "--images 192 --epochs 2", "own.words": "--epochs 2", "own.trainer": "--epochs 2"}
SECONDS = 300.0  # on a machine that is very busy; alone it takes 5


def check(probe):
    mended = edited(probe)
    if "own.trainer" in mended and (lacks := no_trainer()):
        if len(mended) == 1:
            raise UsageError(lacks)
        mended.remove("own.trainer")
        probe.unverified.append(lacks)
    pairs = {}
    for fence in mended:
        file = probe.lab.file_of(fence)
        pairs[fence] = both = probe.beside(SMALL[fence], script=file, small=False, on_cpu=True)
        both.may_differ(*observers.compared())
        both.holds(claim("the loss falls", look=fence)(falls))
        both.holds(claim("it trains the same model on the same data", look=fence)(the_same), both.kits)
        both.says(f"{file}: it trains the same model on the same data, and the loss falls")
    for both in pairs.values():
        if not both.mine.cause.completed:
            return  # it is said when this function has returned; a script that hangs is not run once more
    with ThreadPoolExecutor() as pool:  # most of an audit is the start of its process
        begun = {fence: pool.submit(audit.audit, probe.copies.copy([]).root / probe.lab.file_of(fence), seconds=SECONDS)
                 for fence in pairs}
    for fence, both in pairs.items():
        judge(probe.lab.file_of(fence), fence, both, begun[fence].result())


def no_trainer():
    """Why the kit's own script cannot import the Trainer, in its words; empty where it can."""
    ran = subprocess.run([sys.executable, catalogue.reference("own/with_trainer.py"), "--help"], capture_output=True, text=True,
                         env=os.environ | {"PYTHONPATH": paths.python_path()})
    return (ran.stdout.strip() or "own/with_trainer.py cannot be run").splitlines()[-1] if ran.returncode else ""


def edited(probe):
    """The fences that no longer hold what they came with; where some of them hold another answer than the kit's, those."""
    texts = {file: (probe.copies.folder / file).read_text(encoding="utf-8") for file in probe.lab.files}
    own = probe.copies.answered()
    every = [fence for fence, stub in probe.lab.stubs.items() if stub.strip() not in texts[probe.lab.file_of(fence)]]
    return [fence for fence in every if fence in own] or every


def judge(file, fence, both, found):
    """What the audit says of the planted faults."""
    if not found.ran or (found.updates < audit.UPDATES and found.ended.startswith("It was stopped")):
        raise UsageError(f"the audit of {file} did not come far enough: {found.ended}")
    for one in sorted(found.findings, key=lambda one: one.verdict != WRONG):
        said, place = one.evidence.rstrip("."), Event(file=file, line=one.line) if one.line else fence
        expect(one.verdict != WRONG, look=place, saw=f"{file}: `{one.technique}` is 'used wrongly': {said}",
               expected="the audit finds nothing that is used wrongly")
        # An epoch that is counted from steps stays the same in an audit, which ends the first one early.
        whole = one.verdict == UNSEEN and "set_epoch gave two epochs the same number" in said and tells_epochs(both.mine)
        expect(one.technique not in PLANTED[fence] or one.verdict == USED or whole, look=place,
               saw=f"{file}: `{one.technique}` is '{one.verdict}': {said}",
               expected="'used': the script still does it, and does it right")
    ours, theirs = ([event.lr for event in run.all("update")] for run in (both.mine, both.kits))
    step = next((step for step, (our, their) in enumerate(zip(ours, theirs)) if our != their), None)
    if step is not None:
        expect(False, look=fence, saw=f"{file}: update {step + 1} has a learning rate of {ours[step][0]:.4g}",
               expected=f"{theirs[step][0]:.4g}: the schedule is stepped once after each update")
    both.says(f"{file}: the audit finds nothing that is used wrongly")


def tells_epochs(run):
    """Whether in this run, which goes through two epochs, a sampler was told another number in the second."""
    said = {}
    for event in run.all("set_epoch"):
        said.setdefault(event.of, set()).add(event.epoch)
    return any(len(epochs) > 1 for epochs in said.values())


def losses(run):
    return [event.value for event in run.all("loss", training=True) if event.get("value") is not None]


def falls(run):
    found = losses(run)
    few = max(1, len(found) // 4)
    first, last = sum(found[:few]) / few, sum(found[-few:]) / few
    return None if found and last < first else f"{run.said}: the loss does not fall: {first:.3f} at first, {last:.3f} at the end"


def given(model, marked):
    """What a pass is given, and which values where ``marked``."""
    return [{key: value for key, value in tensor.items() if marked or key != "mark"} for tensor in model.inputs]


def the_same(mine, kits):
    ours, theirs = (run.first("model", training=True) for run in (mine, kits))
    if ours is None:
        return f"{mine.said}: no model is trained"
    if ours.settings != theirs.settings or ours.parameters != theirs.parameters:
        return f"{mine.said}: the model has other layers or parameters", ours
    epochs = [[event.epoch for event in run.all("set_epoch")] for run in (mine, kits)]
    marked = not epochs[0] or epochs[0] == epochs[1]  # counted from 1, they have other orders
    if given(ours, marked) != given(theirs, marked):
        return f"{mine.said}: the first step is given other data", ours
    if len(losses(mine)) != len(losses(kits)):
        return f"{mine.said}: it takes {len(losses(mine))} steps, not {len(losses(kits))}"
    return None
