"""Which of several runs belong in one curve: those that differ in nothing but what the curve is about."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..jobs import runs
from ..jobs.runs import Run
from ..ui import words
from .compare import NOT_A_SWITCH, given

# These change neither what a step takes nor what it needs of memory, or are compared by other fields of the record.
FREE = (*NOT_A_SWITCH, "model", "image_size", "batch_size", "test", "epochs", "lr", "wd", "seed", "schedule", "checkpoint_every")
ALONE = ("sync_bn", "find_unused_parameters")  # without effect in a process that is alone


def differences(run: Run, base: Run, *more: str) -> list[str]:
    """In what a run is unlike the base, beside the batch size and the number of processes: ``amp bf16 here, off there``.

    ``more``: fields of the start of a record that must be the same, too. Of a run that ended before its start nothing is known
    that would speak against it.
    """
    if not run.start:
        return []
    pairs = {name: (value, base.unlike[name]) for name, value in run.unlike.items()}
    pairs |= {name: (run.start.get(name), base.start.get(name)) for name in more}
    lacking = [", ".join(sorted(one.unwritten - {"ddp"})) or "nothing" for one in (run, base)]  # ddp has its own note
    pairs["unwritten labs"] = (lacking[0], lacking[1])
    alone = 1 in (run.start.get("world_size"), base.start.get("world_size"))
    names = [name for name in dict.fromkeys((*base.args, *run.args)) if name not in FREE and not (alone and name in ALONE)]
    pairs |= {name: (given(run, name, [base]), given(base, name, [run])) for name in names}
    return [f"{SAID.get(name, name.replace('_', ' '))} {_value(mine)} here, {_value(other)} there"
            for name, (mine, other) in pairs.items() if _value(mine) != _value(other)]


SAID = {"world_size": "processes", "global_batch": "batch over all processes", "batch_size": "batch size"}


def _value(value) -> str:
    said = words.difference(value)
    return "off" if said == "-" else said


def curve(found: Sequence[Run], along: Callable[[Run], int],
          unlike: Callable[[Run, Run], list[str]]) -> tuple[list[Run], list[Run], list[str]]:
    """The runs that make the longest curve, the others, and for each of those why it is not of that curve.

    ``along``: a run's place on the curve; ``unlike``: what separates two runs. Of curves as long, the first run's counts.
    """
    bases: list[Run] = []  # one of each kind: runs that nothing separates have the same curve
    for run in found:
        if run.start and all(unlike(run, base) for base in bases):
            bases.append(run)
    against = {id(base): [(run, unlike(run, base)) for run in found] for base in bases or found[:1]}
    base = max(bases or found[:1], key=lambda base: len({along(run) for run, said in against[id(base)] if not said}))
    own = [run for run, said in against[id(base)] if not said]
    apart = [(run, said) for run, said in against[id(base)] if said]
    notes = [f"{run.name} is beside the curve, for it can't be compared with {base.name}: {'; '.join(said)}."
             for run, said in apart]
    return own, [run for run, _ in apart], notes


def not_completed(found: Sequence[Run]) -> list[str]:
    """What to know of the runs that did not end well, or not yet."""
    return [f"{run.name} did not complete ({state(run)}): its numbers are from {runs.steps(run)}."
            for run in found if run.state != "COMPLETED" and run.record.steps]


def state(run: Run) -> str:
    return run.state.lower().replace("_", " ")
