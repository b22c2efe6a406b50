"""What an audit says of each technique, from the facts of a run. Where these do not tell, it says so: it never guesses."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass

from ...ui import words
from .. import cheatsheet

USED, NOT_USED, WRONG = "used", "not used", "used wrongly"
NOT_APPLICABLE, UNSEEN = "not applicable", "could not be seen"
VERDICTS = (WRONG, NOT_USED, UNSEEN, USED, NOT_APPLICABLE)  # in this order they are shown
NO_GPU = "Not in this run, which used no GPU: a script may do it on a GPU only."


@dataclass(frozen=True)
class Finding:
    technique: str
    verdict: str
    evidence: str
    line: int | None = None
    file: str | None = None
    brings: str = ""
    lab: str = ""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line else ""

    def json(self) -> dict:
        return asdict(self)


class Seen:
    """The facts of one run, in their order. ``ranks``: this one, and those of the other processes."""

    def __init__(self, events: list, *others: list):
        self.events = events
        self.ranks = [self, *map(Seen, others)]
        self.updates = self.all("passed")
        flags = self.first("flags")
        model = self.training()
        self.gpu = bool(flags and flags.gpu and model and any(place.startswith("cuda") for place in model.devices))
        self.tf32 = bool(flags) and flags.products not in ("highest", "ieee", "none")
        self.cores = flags.cores if flags else 0

    def all(self, *kinds: str) -> list:
        return [event for event in self.events if event.what in kinds]

    def first(self, kind: str):
        return next((event for event in self.events if event.what == kind), None)

    @property
    def group(self) -> str:
        """Why nothing can be said of several processes; empty where something can."""
        if len(self.ranks) == 1:
            return "One process: --ranks 2 shows what goes wrong between several."
        return "" if all(rank.first("group.made") for rank in self.ranks) else "The processes made no process group."

    def asked_in(self, training: bool) -> list[tuple]:
        """(loader, what it was asked for) of each pass of a model in training, or of each in eval mode without gradients."""
        asked, found = None, []
        for event in self.all("batch.indices", "model"):
            if event.what == "batch.indices":
                asked = event
            elif asked is not None and event.training == training and event.grad == training:
                found.append((self.loaders.get(asked.loader), asked))
        return found

    @functools.cached_property
    def loaders(self) -> dict:
        return {event.number: event for event in self.all("loader")}

    def training(self):
        """The first pass of the model that is trained, with the formats of its weights; None: there is none."""
        return next((event for event in self.events if event.what == "model" and event.training), None)

    def absent(self, evidence: str) -> tuple:
        """The script has not done what helps on a GPU: with a GPU that is certain."""
        return (NOT_USED, evidence) if self.gpu else (UNSEEN, NO_GPU)

    def loader(self):
        """The loader that feeds the training."""
        return next((loader for loader, _ in self.asked_in(training=True)), None)


# ------------------------------------------------------------------------------------------------ what makes results wrong
def clears(seen: Seen) -> tuple:
    looked = [update for update in seen.updates if update.watched]
    for which in dict.fromkeys(update.which for update in looked):
        last = [update for update in looked if update.which == which][-3:]
        optimizer = last[-1].optimizer
        if len(last) == 3 and all(update.piled for update in last):
            return WRONG, ("Gradients of the update before were still there when the next ones were added, at each of the "
                           f"last 3 updates of {optimizer}. Call zero_grad() once per update."), last[-1]
        if len(last) == 3 and all(2 * update.cleared > update.watched for update in last):
            return WRONG, (f"When {optimizer} stepped, its gradients had just been cleared: the weights do not learn. "
                           "Call zero_grad() after step(), or before backward()."), last[-1]
    return (USED, "No update found gradients of the one before.", seen.updates[-1]) if len(looked) > 2 else (
        UNSEEN, "There were too few updates.")


def lets_go(seen: Seen) -> tuple:
    alive = [update.alive for update in seen.updates]
    grows = any(a < b < c and c >= 4 for a, b, c in zip(alive, alive[1:], alive[2:]))
    if grows:
        back = seen.all("backward")
        return WRONG, (f"{max(alive)} graphs of earlier losses are still in memory, one more with each update. Something keeps "
                       "the losses themselves, such as a list or a sum: keep loss.detach() or loss.item()."), *back[-1:]
    enough = seen.updates and seen.updates[-1].passes >= 4
    return (USED, "Graphs of earlier losses were freed.") if enough else (UNSEEN, "There were too few updates.")


def validates(seen: Seen) -> tuple:
    trained, several, found, quiet = set(), [], None, 0
    for event in [*seen.all("model", "backward", "passed"), None]:
        if event is not None and event.what == "passed":
            continue
        if event is not None and event.what == "model" and not event.training and event.kind in trained:
            if event.grad and event.frozen < sum(event.parameters.values()):
                several.append(event)
            else:
                quiet += 1
            continue
        if len(several) > 1 and (event is None or event.what == "model"):
            found = several[-1]
        several = []
        if event is not None and event.what == "model" and event.training:
            trained.add(event.kind)
    if found:
        return WRONG, ("In eval mode the model built graphs that no backward pass used: they cost memory and time. "
                       "Validate under torch.no_grad() or torch.inference_mode()."), found
    return (USED, f"{words.counted(quiet, 'forward pass', 'forward passes')} in eval mode, without gradients.") if quiet else (
        UNSEEN, "This run came to no validation.")


EVAL = "After a validation the model was trained in eval mode: without dropout, with the statistics of batch norm as they were."


def trains(seen: Seen) -> tuple:
    """Wrong only where nobody can have meant it: what put the model into eval mode was for a validation, nothing has set a mode
    since, nothing was frozen, the same line has trained it in train mode before, and it was never put into eval mode to train."""
    first = seen.training()
    if first is None or not any(word in layer for layer in first.settings for word in ("Dropout", "BatchNorm")):
        return NOT_APPLICABLE, "The model has no layer that works otherwise in training."
    validated: dict[int, bool] = {}  # models put into eval mode: whether a validation came, and no call for a mode after it
    passes, backs, known, looked = [], [], set(), set()
    stayed, meant, returned = [], None, False
    for event in seen.all("mode", "model", "backward", "passed"):
        if event.what == "mode":
            validated = {of: False for of in [*validated, event.of] if of != event.of or not event.training}
        elif event.what == "model" and not event.grad:
            if not event.training:
                looked.add(event.of)
                validated |= {event.of: True} if event.of in validated else {}
        elif event.what == "model":
            passes += [event] if event.frozen < sum(event.parameters.values()) else []
        elif event.what == "backward":
            backs += [(one, event, validated.get(one.of)) for one in passes]
            passes = []
        else:
            in_training = {one.of for one, *_ in backs if one.training}
            for one, back, after_validation in backs:
                key = one.of, one.frozen, back.file, back.line
                if one.training:
                    known.add(key)
                    returned = returned or one.of in looked
                elif key in known and one.of not in in_training:
                    stayed += [event] if after_validation else []
                    meant = meant if after_validation else event
            backs = []
    if len(stayed) > 1 and not meant:
        return WRONG, f"{EVAL} Call model.train() at the start of each epoch.", stayed[-1]
    if stayed or meant:
        return UNSEEN, f"{EVAL} If that is not meant so, call model.train() at the start of each epoch.", meant or stayed[-1]
    return (USED, "The model was trained in train mode, also after it had been in eval mode.") if returned else (
        UNSEEN, "This run came to no training after eval mode.")


def clips(seen: Seen) -> tuple:
    scaled = [event for event in seen.all("scaling") if event.asked]
    if not scaled or not seen.all("clipping"):
        return NOT_APPLICABLE, "No gradient scaler." if not scaled else "No clipping."
    unscaled, clipped, verdicts = False, None, []
    for event in seen.all("backward", "clipping", "scaling"):
        if event.what == "backward":
            unscaled, clipped = False, None
        elif event.what == "clipping":
            clipped = event, unscaled
        elif event.call == "unscale_":
            unscaled = True
        elif event.call == "step" and clipped:
            verdicts.append((clipped[1], event.enabled, clipped[0]))
    wrong = [where for right, enabled, where in verdicts if enabled and not right]
    if wrong:
        return WRONG, ("Gradients were clipped while they were still multiplied by the loss scale, which is far above the limit. "
                       "Call scaler.unscale_(optimizer) before clipping."), wrong[-1]
    if verdicts and all(right for right, _, _ in verdicts):
        return USED, "scaler.unscale_ comes before the clipping.", verdicts[-1][2]
    return UNSEEN, "The scaler was off in this run. Look whether scaler.unscale_ comes before the clipping."


def schedules(seen: Seen) -> tuple:
    stepped = seen.all("stepped")
    if not stepped:
        return (UNSEEN, "The schedule was not stepped in this run.") if seen.all("scheduled") else (
            NOT_APPLICABLE, "No schedule of torch.")
    early, skipped, state = [], [], ""
    for event in seen.all("model", "backward", "stepped", "scaling", "passed"):
        if event.what == "stepped":
            if state == "backward":
                state, where = "early", event
            elif state == "skipped":
                skipped.append(event)
        elif event.what == "passed":
            if state == "early":
                early.append(where)
            state = "passed"
        elif event.what == "scaling":
            state = "skipped" if event.call == "step" and event.enabled and state != "passed" else state
        else:
            state = event.what
    if len(early) > 1:
        return WRONG, ("The schedule was stepped between the backward pass and the update: its first learning rate is never "
                       "used. Call scheduler.step() after optimizer.step()."), early[-1]
    if len(skipped) > 1:  # once it may be the end of an epoch
        return WRONG, (f"The scaler skipped {words.counted(len(skipped), 'update')}, and the schedule went on all the same. "
                       "Step it only where scaler.get_scale() has not become smaller."), skipped[-1]
    return USED, "Stepped after the update.", stepped[-1]


def backs(seen: Seen) -> tuple:
    inside, direct = [], False
    for event in seen.all("back", "backward"):
        direct = event.direct if event.what == "back" else direct
        if event.what == "backward" and event.autocast:
            inside.append(event)
    if inside and not direct:
        return UNSEEN, "The backward pass ran inside of autocast, and it is a library that called it.", inside[-1]
    if len(inside) > 1:
        return WRONG, ("The backward pass ran inside of autocast, which PyTorch advises against: it converts once more. "
                       "End the region after the loss."), inside[-1]
    regions = [event for event in seen.all("autocast") if event.enabled]
    return (USED, "The region ends before the backward pass.", regions[-1]) if regions and seen.all("backward") else (
        NOT_APPLICABLE, "No autocast in this run.")


def shuffles(seen: Seen) -> tuple:
    loaders = [one for one in seen.all("loader") if "DistributedSampler" in one.get("samplers", ())]
    if not loaders:
        return NOT_APPLICABLE, "No DistributedSampler."
    several = False
    for loader in loaders:
        passes: dict[int, dict[int, list]] = {}
        for event in seen.all("batch.indices"):
            if event.loader == loader.number and event.indices is not None:
                passes.setdefault(event.epoch, {})[event.batch] = event.indices
        orders = [[index for batch in sorted(asked)[:3] for index in asked[batch]] for asked in passes.values()]
        if not orders or orders[0] == sorted(orders[0]):  # it does not shuffle
            continue
        several = several or len(orders) > 1
        if len(orders) > 1 and len(orders[0]) > 4 and orders[0] == orders[1]:
            return WRONG, ("Two epochs had the same order: the DistributedSampler was not told the epoch. "
                           "Call sampler.set_epoch(epoch) before each."), loader
    return (USED, "The second epoch had another order.") if several else (UNSEEN, "This run came to no second epoch.")


# ------------------------------------------------------------------------------------------------------ several processes
def parts(seen: Seen) -> tuple:
    if seen.group:
        return NOT_APPLICABLE, seen.group
    if not all(rank.first("wrap") for rank in seen.ranks):
        return UNSEEN, "The processes do not share gradients by DistributedDataParallel: they may need the same samples."
    given = [[str([value.get("mark") for value in event.inputs]) for event in rank.all("model")
              if event.training and event.inputs][:4] for rank in seen.ranks]
    if min(map(len, given)) < 4 or len(set(given[0])) < 4:
        return UNSEEN, "There were too few different inputs."
    if all(one == given[0] for one in given):
        where = next(event for event in seen.all("model") if event.training)
        return WRONG, ("All ranks trained on the same samples: several GPUs do the work of one. Give the loader a "
                       "DistributedSampler."), where
    return USED, "Each rank trained on samples of its own."


def keeps(seen: Seen) -> tuple:
    if seen.group:
        return NOT_APPLICABLE, seen.group
    kept = [{event.path: event for event in rank.all("kept")} for rank in seen.ranks]
    both = next((path for path in kept[0] if all(path in files for files in kept)), None)
    if both:
        return WRONG, ("Every rank saved the same file: one may read it, or start from it, while another one writes. "
                       "Save on rank 0."), kept[0][both]
    if not any(kept):
        return UNSEEN, "torch.save wrote no file in this run."
    several = sum(bool(files) for files in kept) > 1
    return USED, "Each rank saved files of its own." if several else "One rank saved.", *[
        event for files in kept for event in files.values()][:1]


def has_own_gpu(seen: Seen) -> tuple:
    if seen.group:
        return NOT_APPLICABLE, seen.group
    if not seen.gpu:
        return UNSEEN, NO_GPU
    places = [(rank.first("flags").visible, *sorted(rank.training().devices)) for rank in seen.ranks if rank.training()]
    if len(places) == len(seen.ranks) and len(set(places)) == 1 and len(places[0]) == 2:
        return WRONG, (f"All ranks compute on {places[0][1]}. Call torch.cuda.set_device(local_rank), and move the model and the "
                       "batches there."), seen.training()
    return USED, f"Models are on {', '.join(place for _, *several in places for place in several)}.", seen.training()


def validated_by(seen: Seen) -> list[list[tuple]]:
    """Of each rank what loaders were asked for in validation."""
    return [rank.asked_in(training=False) for rank in seen.ranks]


def counts(seen: Seen) -> tuple:
    if seen.group:
        return NOT_APPLICABLE, seen.group
    asked = [one for one in validated_by(seen)[0] if one[0]]
    if not asked:
        return UNSEEN, "This run came to no validation by a DataLoader of torch."
    loader = next((loader for loader, _ in asked if loader.padded), None)
    if loader:
        return NOT_USED, (f"{words.counted(loader.padded, 'sample')} of {loader.size} validated twice, so that all ranks have as "
                          "many: the mean is not that of the set, unless the script leaves them out afterwards."), loader
    if not any("DistributedSampler" in loader.samplers for loader, _ in asked):
        return UNSEEN, "No DistributedSampler of torch feeds the validation."
    return USED, "The ranks' parts have the same size, without padding.", asked[0][0]


def gathers(seen: Seen) -> tuple:
    if seen.group:
        return NOT_APPLICABLE, seen.group
    asked = validated_by(seen)
    if not all(asked):
        return UNSEEN, "Not all ranks came to a validation by a DataLoader of torch."
    orders = [str([event.indices for _, event in several[:3]]) for several in asked]
    if "None" in orders[0]:
        return UNSEEN, "The data set has no indices."
    loader = asked[0][0][0]
    if len(set(orders)) == 1:
        return NOT_USED, "Every rank validated the same samples: a DistributedSampler would give each a part.", loader
    validating, sent, open_ = False, 0, 0
    for event in seen.all("model", "collective", "backward"):
        if event.what == "model":
            validating = validating or not (event.training or event.grad)
        elif event.what == "backward":
            open_ += validating
            validating = False
        elif validating and event.inside == "other" and not event.aside and event.kind not in ("barrier", "broadcast"):
            sent, validating = sent + 1, False
    if sent:
        return USED, "After its validation each rank sent what it had found.", loader
    return (NOT_USED, "Each rank validated a part, and nothing was sent afterwards: what a rank prints is of its part alone. "
                      "Add up sums and counts with all_reduce.", loader) if open_ else (
        UNSEEN, "This run ended in its first validation.")


def holds_back(seen: Seen) -> tuple:
    if seen.group or not seen.first("wrap"):
        return NOT_APPLICABLE, seen.group or "No DistributedDataParallel."
    sends, last, several = 0, None, []
    for event in seen.all("collective", "backward", "passed"):
        if event.what == "collective":
            last = "sent" if event.inside == "backward" and not event.in_no_sync else last
        elif event.what == "backward":
            sends, last = sends + (last == "sent"), None
        else:
            several.append((sends, event))
            sends = 0
    often = [event for count, event in several if count > 1]
    if len(often) > 2:
        return NOT_USED, ("Gradients are sent after each backward pass, though several make an update: keep all but the last one "
                          "in `with model.no_sync():`."), often[-1]
    regions = seen.all("no_sync")
    return (USED, "Gradients are sent once per update.", regions[-1]) if regions else (
        NOT_APPLICABLE, "No gradients are accumulated.")


# --------------------------------------------------------------------------------------------------- what makes it faster
def mixed(seen: Seen) -> tuple:
    regions = seen.all("autocast")
    for event in [event for event in regions if event.enabled] + regions:
        if event.enabled or (event.device_type == "cuda" and not seen.gpu):
            return USED, f"autocast in {event.dtype}" + ("" if event.enabled else ", on a GPU only"), event
    model = seen.training()
    if model and set(model.parameters) & {"bfloat16", "float16"}:
        return USED, f"The weights are {', '.join(model.parameters)}.", model
    return seen.absent("Everything is computed in float32.")


def tf32(seen: Seen) -> tuple:
    return (USED, "Switched on for products.") if seen.tf32 else seen.absent("Off for products, which is torch's default.")


def lies_last(seen: Seen) -> tuple:
    model = seen.training()
    formats = Counter(model.weights.values()) if model else Counter()
    if not formats:
        return NOT_APPLICABLE, "No weights of convolutions over images."
    if not formats["channels_last"]:
        return seen.absent("All weights of convolutions are NCHW.")
    late, training = [], False
    for event in seen.all("model", "layer"):
        training = event.training if event.what == "model" else training
        if event.what == "layer" and training and event.kind == "Conv2d" and event.input:
            late.append(event)
    late = late[1:]  # the first one is given the images as they come
    dropped = next((layer for layer in late if layer.input["format"] == "contiguous"), None)
    if dropped:
        said = f"The weights are channels-last, but what goes into {dropped.name} is NCHW again"
        return (WRONG, f"{said}: something before it has changed the format.", dropped) if seen.gpu else (
            UNSEEN, f"{said} in this run on the CPU; a GPU may keep it.", dropped)
    return USED, "Weights, and what goes into the layers.", model


def compiles(seen: Seen) -> tuple:
    made = seen.first("compiled")
    if made:
        return USED, f"{made.kind}, mode {made.mode}. The audit ran it uncompiled.", made
    return seen.absent("Nothing is compiled.")


def waits(seen: Seen) -> tuple:
    steps: dict[tuple, set] = {}
    for event in seen.all("read", "sync"):
        if event.line and event.by == "own":  # a scaler has to read whether gradients are finite
            steps.setdefault((event.file, event.line), set()).add(event.step)
    most = max(Counter(update.which for update in seen.updates).values(), default=0)  # the last one may have ended the run
    always = next((place for place, those in steps.items() if len(those) >= max(3, most - 1)), None)
    if always:
        event = next(event for event in seen.all("read", "sync") if (event.file, event.line) == always)
        return NOT_USED, f"In each step the host reads a value ({event.how}): there it waits for the GPU.", event
    return (USED, "No line makes the host wait in each step.") if seen.gpu else (
        UNSEEN, "No line reads a loss in each step. Other waits show on a GPU only.")


def fuses(seen: Seen) -> tuple:
    if not seen.updates:
        return UNSEEN, "No update."
    last = seen.updates[-1]
    if any(group["fused"] for group in last.groups):
        return USED, f"{last.optimizer}(fused=True)", last
    if any(group["foreach"] is False for group in last.groups):
        return NOT_USED, f"{last.optimizer}(foreach=False) updates one tensor after the other.", last
    return seen.absent(f"{last.optimizer} without fused=True.") if last.has_fused else (
        NOT_APPLICABLE, f"{last.optimizer} has no fused implementation.")


def works(seen: Seen) -> tuple:
    loader = seen.loader()
    if loader is None:
        return NOT_APPLICABLE, "No DataLoader of torch feeds the training."
    if loader.num_workers:
        more = f", more than the {seen.cores} cores that are allowed here" if loader.num_workers > seen.cores else ""
        return USED, f"{words.counted(loader.num_workers, 'worker')}{more}.", loader
    return (*seen.absent("num_workers=0: the training waits while samples are made."), loader)


def pins(seen: Seen) -> tuple:
    loader = seen.loader()
    if loader is None:
        return NOT_APPLICABLE, "No DataLoader of torch feeds the training."
    return (USED, "pin_memory=True", loader) if loader.pin_memory else (*seen.absent("pin_memory=False"), loader)


def decays(seen: Seen) -> tuple:
    last = {update.which: update for update in seen.updates}
    decayed = [(group, update) for update in last.values() for group in update.groups if group["decay"]]
    if not decayed:
        return NOT_APPLICABLE, "No weight decay."
    flat = sum(group["flat"] for group, _ in decayed)
    where = decayed[0][1]
    return (NOT_USED, f"{words.counted(flat, 'bias or norm weight', 'biases and norm weights')} decay like the other weights.",
            where) if flat else (USED, "Only weights with two or more dimensions decay.", where)


TECHNIQUES: dict[str, tuple[Callable[[Seen], tuple], str, str]] = {  # by name: the judge, the lab, the cheat sheet's row
    "gradients cleared once per update": (clears, "memory", ""),
    "losses kept without their graphs": (lets_go, "memory", ""),
    "validation without gradients": (validates, "memory", ""),
    "train mode in training": (trains, "gpu", ""),
    "clipping after unscaling": (clips, "amp", ""),
    "schedule after the update": (schedules, "optimizers", ""),
    "backward pass outside of autocast": (backs, "amp", ""),
    "another order in each epoch": (shuffles, "ddp", ""),
    "samples of its own for each rank": (parts, "ddp", ""),
    "checkpoints from one rank": (keeps, "ddp", ""),
    "a GPU for each rank": (has_own_gpu, "ddp", ""),
    "validation counts each sample once": (counts, "ddp", ""),
    "validation over all ranks": (gathers, "ddp", ""),
    "no sending while gradients accumulate": (holds_back, "ddp_advanced", ""),
    "mixed precision": (mixed, "amp", "bf16 autocast"),
    "TF32": (tf32, "gpu", "TF32"),
    "channels-last": (lies_last, "channels_last", "channels-last"),
    "torch.compile": (compiles, "compile", "torch.compile"),
    "no waits in the step": (waits, "kernels", "no waits"),
    "fused optimizer": (fuses, "optimizers", "fused optimizer"),
    "loader workers": (works, "dataloader", "loader workers"),
    "pinned memory": (pins, "dataloader", "pinned memory"),
    "no decay of norms and biases": (decays, "optimizers", ""),
}


def judge(*facts: list) -> list[Finding]:
    """``facts`` of each rank."""
    seen, found = Seen(*facts), []
    methods = {one.what: one for several in cheatsheet.METHODS.values() for one in several}
    for name, (look, lab, row) in TECHNIQUES.items():
        verdict, evidence, *where = look(seen)
        event = where[0] if where and where[0] else {}
        brings = ""
        if row and verdict in (NOT_USED, UNSEEN, WRONG):
            brings = f"{methods[row].measured().speed} ({methods[row].setting})"
        found.append(Finding(name, verdict, evidence, event.get("line"), event.get("file"), brings, lab))
    return sorted(found, key=lambda one: VERDICTS.index(one.verdict))
