"""What makes results wrong, or takes memory for nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ...ui import words
from ..probe.facts import Event
from .seen import NOT_APPLICABLE, NOT_USED, UNSEEN, USED, WRONG, Seen


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
    grows = any(a < b < c and c >= 3 for a, b, c in zip(alive, alive[1:], alive[2:]))  # a pass has five updates, two of them new
    if grows:
        keeper, back = seen.first("keeper"), seen.all("backward")[-1:]
        what = f"`{keeper.name}` keeps the losses themselves" if keeper and keeper.get("name") else (
            "Something keeps the losses of this backward pass themselves, such as a list or a sum")
        return WRONG, (f"{max(alive)} graphs of earlier losses are still in memory, one more with each update. {what}: keep "
                       "loss.detach() or loss.item()."), *([keeper] if keeper and keeper.get("line") else back)
    enough = seen.updates and seen.updates[-1].passes >= 4
    return (USED, "Graphs of earlier losses were freed.") if enough else (UNSEEN, "There were too few updates.")


def validates(seen: Seen) -> tuple:
    """Passes that come before most of the updates are no validation: they may be those of a teacher."""
    trained, several, found, quiet, updates, loader = set(), [], [], 0, 0, None
    for event in [*seen.all("model", "backward", "derived", "passed", "waited"), None]:
        if event is not None and event.what == "passed":
            updates += 1
            continue
        if event is not None and event.what == "waited":
            if event.loader != loader:  # another loader: its batches are not for what the passes before were for
                found += several[-1:] if len(several) > 1 else []
                several, loader = [], event.loader
            continue
        if event is not None and event.what == "model" and not event.training and event.kind in trained:
            if event.grad and event.frozen < sum(event.parameters.values()):
                several.append(event)
            else:
                quiet += 1
            continue
        if len(several) > 1 and (event is None or event.what == "model"):
            found.append(several[-1])
        several = []
        if event is not None and event.what == "model" and event.training:
            trained.add(event.kind)
    if found and len(found) <= updates / 2:
        return WRONG, ("In eval mode the model built graphs that no backward pass used: they cost memory and time. "
                       "Validate under torch.no_grad() or torch.inference_mode()."), found[-1]
    return (USED, f"{words.counted(quiet, 'forward pass', 'forward passes')} in eval mode, without gradients.") if quiet else (
        UNSEEN, ("No validation of the trained model in eval mode was recognised. Where the script validates, call model.eval() "
                 "and use torch.inference_mode()."))


EVAL = "After a validation the model was trained in eval mode: without dropout, with the statistics of batch norm as they were."


def trains(seen: Seen) -> tuple:
    """Wrong only where nobody can have meant it: what put the model into eval mode was for a validation, nothing has set a mode
    since, nothing was frozen, the same line has trained it in train mode before, and it was never put into eval mode to train."""
    first = seen.training()
    if first is None:
        return UNSEEN, "No model was trained in train mode."
    if not any(word in layer for layer in first.settings for word in ("Dropout", "BatchNorm")):
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
            looked |= set() if event.training else {event.of}
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
            measures = event.limit is not None and event.limit > 1000  # the norm: nothing is meant to be clipped
            clipped = None if measures else (event, unscaled)
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
    why = ("The limit is so high that it clips nothing." if any(event.enabled for event in scaled) else
           "The scaler was off in this run.")
    return UNSEEN, f"{why} Look whether scaler.unscale_ comes before the clipping."


def schedules(seen: Seen) -> tuple:
    stepped = seen.all("stepped")
    if not stepped:
        return (UNSEEN, "The schedule was not stepped in this run.") if seen.all("scheduled") else (
            NOT_APPLICABLE, "No schedule of torch.")
    early, skipped, waiting, state = [], [], [], ""
    for event in seen.all("model", "backward", "stepped", "scaling", "passed"):
        if event.what == "stepped":
            if state == "backward":
                waiting.append(event)
            elif state == "skipped":
                skipped.append(event)
        elif event.what == "passed":
            early += [one for one in waiting if one.which == event.which]
            waiting, state = [one for one in waiting if one.which != event.which], "passed"
        elif event.what == "scaling":
            state = "skipped" if event.call == "step" and event.enabled and state != "passed" else state
        else:
            waiting, state = [], event.what
    if len(early) > 1:
        return WRONG, ("The schedule was stepped between the backward pass and the update: its first learning rate is never "
                       "used. Call scheduler.step() after optimizer.step()."), early[-1]
    if len(skipped) > 1:  # once it may be the end of an epoch
        return WRONG, (f"The scaler skipped {words.counted(len(skipped), 'update')}, and the schedule went on all the same. "
                       "Step it only where scaler.get_scale() has not become smaller."), skipped[-1]
    first, *later = seen.all("stepped", "backward", "passed")
    places = [(event.file, event.line) for event in later if event.what == "stepped"]
    if first.what == "stepped" and not first.get("told") and (first.file, first.line) in places:
        return UNSEEN, ("The schedule was stepped before the first update, so its first learning rate is never used. If that is "
                        "not meant so, call scheduler.step() after optimizer.step()."), first
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


@dataclass
class Pass:
    """One pass over a loader with a DistributedSampler. ``before``: the epochs that this sampler had been told by then; ``ever``:
    at any time; ``begun``, ``ended``: when its first batch was given, and its last; ``trains``: optimizers that used them."""

    loader: Event
    before: list
    ever: list
    batches: dict[int, list] = field(default_factory=dict)
    begun: int = 0
    ended: int = 0
    trains: set = field(default_factory=set)

    @property
    def order(self) -> list:
        return [index for batch in sorted(self.batches) for index in self.batches[batch]]


def distributed(seen: Seen) -> list[Event]:
    """The loaders with a DistributedSampler."""
    return [loader for loader in seen.loaders.values() if "DistributedSampler" in loader.get("samplers", ())]


def passes(seen: Seen) -> list[Pass]:
    """Those that trained, in their order. A look at a batch, a validation, statistics of the data are passes, too."""
    found: dict[tuple, Pass] = {}
    told: dict[tuple, list] = {tuple(one.sampled_by): [] for one in distributed(seen)}
    given = fed = None
    for place, event in enumerate(seen.all("set_epoch", "batch.indices", "waited", "backward", "passed")):
        if event.what == "set_epoch":
            for samplers in told:
                told[samplers] += [event.epoch] * (event.of in samplers)
        elif event.what == "batch.indices":
            loader = seen.loaders.get(event.loader)
            said = told.get(tuple(loader.get("sampled_by", ()))) if loader else None
            if said is not None and event.indices is not None:
                one = found.setdefault((event.loader, event.epoch), Pass(loader, [*said], said))
                one.batches[event.batch] = event.indices
        elif event.what == "waited":
            given = found.get((event.loader, event.epoch))
            if given:
                given.begun, given.ended = given.begun or place, place
        elif event.what == "backward":
            fed = given
        elif fed:
            fed.trains.add(event.which)
    return sorted((one for one in found.values() if one.trains), key=lambda one: one.begun)


def shuffles(seen: Seen) -> tuple:
    """Wrong are two epochs of one training in the same order, be their loader and its sampler the same or made anew. A validation
    may keep its order, and another training may begin with that of the first."""
    if not distributed(seen):
        return NOT_APPLICABLE, "No DistributedSampler."
    trained = passes(seen)
    if not trained:
        return UNSEEN, "This run did not show a DistributedSampler that feeds the training."
    shuffled = [one for one in trained if one.order != sorted(one.order)]
    if not shuffled:
        return NOT_APPLICABLE, "The DistributedSampler does not shuffle."
    compared, differ, again = False, False, None
    for place, two in enumerate(shuffled):
        one = next((one for one in reversed(shuffled[:place]) if one.loader.of == two.loader.of and one.trains & two.trains
                    and one.ended < two.begun), None)
        most = min(len(one.order), len(two.order)) if one else 0
        if most < 5:
            continue
        compared, same = True, one.loader.sampled_by == two.loader.sampled_by
        more = len(two.before) > len(one.before)
        if one.order[:most] != two.order[:most]:
            differ = True
        elif one.before and two.before and one.before[-1] == two.before[-1] and (more or not same):
            again = two.loader
        elif more or not two.ever if same else not (one.before or two.before):
            why = "set_epoch came when the pass had begun" if two.ever else "the DistributedSampler was not told the epoch"
            return WRONG, f"Two epochs had the same order: {why}. Call sampler.set_epoch(epoch) before each.", two.loader
    if again:
        return UNSEEN, ("set_epoch gave two epochs the same number. Where it is counted from steps, that is because the audit "
                        "ended the first one early; else they have the same order."), again
    if differ:
        return USED, "The second epoch had another order."
    if compared:
        return UNSEEN, "Two passes had the same order. They may be of one epoch."
    return UNSEEN, ("Each pass was over another data set." if len({one.loader.of for one in shuffled}) > 1 else
                    "This run came to no second epoch.")


def means(seen: Seen) -> tuple:
    """What a script makes of numbers cannot be followed; but what it prints after a validation can be compared."""
    rounds, losses, printed, evaluates, loader = [], [], [], False, None
    with_graphs = validates(seen)[0] == WRONG
    for event in [*seen.all("model", "loss", "printed", "cut", "backward", "waited"), None]:
        if event is not None and event.what == "waited":  # the training may go on in eval mode, too
            if with_graphs and event.loader != loader:
                rounds += [(losses, printed)] if losses else []
                losses, printed, evaluates = [], [], False
            loader = event.loader
        elif event is not None and event.what == "model":
            evaluates = with_graphs and not event.training
        elif event is None or event.what in ("backward", "cut"):
            rounds += [(losses, printed)] if losses and (event is None or event.what == "backward") else []
            losses, printed = [], []
        elif event.what == "printed":
            printed += [(number, event) for number in event.numbers]
        elif (evaluates or not event.training) and event.value is not None and event.target:
            losses.append((event.value, math.prod(event.target["shape"])))
            printed = []
    ragged = [(losses, printed) for losses, printed in rounds if len({count for _, count in losses}) > 1]
    if not ragged:
        asked = seen.asked_in(training=False) + (seen.asked_in(False, grad=True) if with_graphs else [])
        loader = next((loader for loader, _ in asked if loader), None)
        if loader and loader.size and loader.batch_size and loader.size % loader.batch_size and not loader.drop_last:
            return UNSEEN, (f"The last batch of validation has {loader.size % loader.batch_size} of {loader.batch_size} samples: "
                            "a mean of the batches' means counts them too much."), loader
        return (NOT_APPLICABLE, "All batches of validation have the same size.") if loader else (
            UNSEEN, "This run came to no validation by a DataLoader of torch.")
    plain = []
    for losses, printed in ragged:
        of_means = sum(value for value, _ in losses) / len(losses)
        of_samples = sum(value * count for value, count in losses) / sum(count for _, count in losses)
        if any(_is(of_samples, number) for number, _ in printed):
            return USED, f"It printed {of_samples:.4g}, which is the mean over the samples."
        plain += [(of_means, of_samples, number, event) for number, event in printed if _is(of_means, number)][:1]
    if len(plain) == len(ragged) > 1:
        of_means, of_samples, number, event = plain[-1]
        right = f"{of_samples:.{len(number.split('.')[1])}f}"
        return WRONG, (f"It printed {number} after a validation: the mean of the batches' means, though the last batch is "
                       f"smaller. Over the samples it is {right}. Weight each batch by its size."), event
    return UNSEEN, ("The last batch of validation is smaller than the others, and what was printed after "
                    f"{words.counted(len(ragged), 'validation')} does not show how it counts. More of them: --updates 40.")


def _is(value: float, number: str) -> bool:
    """Whether a value is printed like that."""
    return f"{value:.{len(number.split('.')[1])}f}" == number


def mend(source: str) -> str:
    """How each worker gets a stream of its own."""
    if source.startswith("dataset"):  # it is copied to each worker as it is; the DataLoader seeds the global sources alone
        return (f"In worker_init_fn, make it anew: torch.utils.data.get_worker_info().{source} = …, seeded with "
                "torch.initial_seed(), which differs by worker and by epoch.")
    return "In worker_init_fn, seed with torch.initial_seed() % 2**32, or leave it to the DataLoader."


def draws(seen: Seen) -> tuple:
    loader = seen.loader()
    drawn = [event for event in seen.all("drawn") if event.of in seen.fed()]
    if not loader or not loader.num_workers:
        return NOT_APPLICABLE, "No workers."
    used = [(source, event) for event in drawn for source in event.before if event.before[source] != event.after.get(source)]
    if not used:
        return (NOT_APPLICABLE, "The workers draw no random numbers.") if drawn else (UNSEEN, "What workers do was not seen.")
    first: dict[tuple, list] = {}  # by source and where its stream was before a batch and after it: who fetched that
    for source, event in used:
        first.setdefault((source, event.before[source], event.after[source]), []).append(event)
    for (source, *_), events in first.items():
        for one in events:
            if any(two.worker != one.worker and two.seed == one.seed for two in events):
                said = f"Several workers draw the same random numbers from {source}: their augmentations repeat."
                return WRONG, f"{said} {mend(source)}", loader
    for (source, *_), events in first.items():
        if len({event.pid for event in events}) > 1:
            return NOT_USED, f"In each epoch the workers draw the same random numbers from {source} again. {mend(source)}", loader
    several = len({event.pid for event in drawn}) > 1
    return (USED, "Workers draw different random numbers.", loader) if several else (UNSEEN, "One worker, and one epoch.")
