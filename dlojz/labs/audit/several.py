"""What goes wrong between processes."""

from __future__ import annotations

from ...ui import words
from .seen import NO_GPU, NOT_APPLICABLE, NOT_USED, UNSEEN, USED, WRONG, Seen


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
    if seen.first("flags").gpus < len(seen.ranks):
        return UNSEEN, "There are more ranks than GPUs here: some have to share one."
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
    sends, backs, sent, several = 0, 0, False, []
    for event in seen.all("collective", "backward", "passed"):
        if event.what == "collective":
            sent = sent or (event.inside == "backward" and not event.in_no_sync)
        elif event.what == "backward":
            sends, backs, sent = sends + sent, backs + 1, False
        else:
            several.append((sends, backs, event))
            sends, backs = 0, 0
    often = [event for count, _, event in several if count > 1]
    if len(often) > 2:
        return NOT_USED, ("Gradients are sent after each backward pass, though several make an update: keep all but the last one "
                          "in `with model.no_sync():`."), often[-1]
    once = [event for count, passes, event in several if count == 1 < passes]
    if len(once) > 2:
        return USED, "Gradients of several backward passes are sent once per update.", *seen.all("no_sync")[-1:]
    return NOT_APPLICABLE, "No gradients are accumulated."
