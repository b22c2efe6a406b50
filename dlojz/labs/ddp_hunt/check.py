"""ddp_hunt: each of six scripts does what its first lines promise. Two processes run each, beside two that run the kit's."""

import re
from itertools import chain

from dlojz.labs.checking import claim

POINTS, BATCHES, EPOCHS = 64, 4, 3  # of ddp_1.py
OWN = (7, 3)  # points of ddp_2.py that each process has
OWN_WAY = ("collective", "wrap", "model", "layer", "loss", "backward", "update", "updated")  # what is right is said below
SAYS = ("ddp_1.py: each epoch has another order, and no point is seen twice",
        "ddp_2.py: the accuracy is that of all points, on both ranks",
        "ddp_3.py: one process saves, and what it saved is loaded whole",
        "ddp_4.py: both processes go on, after the file is there",
        "ddp_5.py: both have the same parameters after each step, from the mean of their gradients",
        "ddp_6.py: the processes make different moves, other ones in each step, and a second run the same ones")


def check(probe):
    # Each process believes that it is alone on its node: rank 0 and rank 1 have both the local rank 0.
    options = {"small": False, "ranks": 2, "slow_save": True, "on_cpu": True, "local_ranks": [0, 0], "rows": True,
               "observe": ["collectives", "layers", "printing", "replicas", "updates"]}
    *pairs, again = (probe.beside(script=f"hunt/ddp_{number}.py", **options) for number in (1, 2, 3, 4, 5, 6, 6))
    orders, accuracy, checkpoint, saving, step, noise = pairs
    for both in (*pairs, again):
        both.may_differ(*OWN_WAY)
    orders.holds(split)
    accuracy.holds(own_part)
    for both, fence in ((accuracy, "accuracy"), (checkpoint, "checkpoint"), (saving, "saving")):
        both.same("save.extra", "save.missing", look=f"ddp_hunt.{fence}",
                  saw=lambda each: f"it saves {len(each.facts.all('save'))} times in all",
                  expected="rank 0 saves once, in ddp_4.py once an epoch, the others never")
        both.same("save.kind", look=f"ddp_hunt.{fence}", saw="it saves a {mine}: whoever loads the file needs the same class",
                  expected="a {kits} of parameters by name, which `torch.load(weights_only=True)` reads")
        both.holds(prints, both.kits, f"ddp_hunt.{fence}")
    step.holds(averaged, step.kits)
    noise.holds(own_moves)
    again.holds(same_moves, noise.mine)
    for both, sentence in zip(pairs, SAYS):
        both.says(sentence)
    probe.unverified.append("several nodes: here processes only believe that they are on two")


@claim("each epoch gives each point to one process, four batches to each, in another order than the epochs before",
       look="ddp_hunt.epochs")
def split(run):
    given = [[fact.rows for fact in facts.all("given")] for facts in run.ranks]
    if wrong := next((batches for batches in given if len(batches) != EPOCHS * BATCHES), None):
        return f"ddp_1.py: a rank is given {len(wrong)} batches in three epochs"
    starts = range(0, EPOCHS * BATCHES, BATCHES)
    for number, start in enumerate(starts):
        seen = set(chain(*(chain(*batches[start : start + BATCHES]) for batches in given)))
        if len(seen) < POINTS:
            return f"ddp_1.py: in epoch {number} both processes together see {len(seen)} of the {POINTS} points"
    if len({tuple(chain(*given[0][start : start + BATCHES])) for start in starts}) < EPOCHS:
        return "ddp_1.py: two epochs have the points in the same order"
    if any(re.search(r"\[0, [12], [24],", text) for text in printed(run)):
        return "ddp_1.py: the points come in the order in which they lie"


@claim("each looks at its own part, rank 0 at seven and rank 1 at three: that is what there are several processes for",
       look="ddp_hunt.accuracy")
def own_part(run):
    for rank, (facts, own) in enumerate(zip(run.ranks, OWN)):
        passes = [fact.inputs[0]["shape"][0] for fact in facts.all("model", training=False)]
        if max(passes[: len(passes) - (rank == 0)], default=0) > own:  # rank 0 looks at all ten afterwards, to compare
            return f"ddp_2.py: rank {rank} looks at {max(passes)} points to find the accuracy"


@claim("what is found, saved and read again is that of all processes, as the script's first lines promise", look="")
def prints(run, kits, fence):
    for facts, other in zip(run.ranks, kits.ranks):
        for wanted in (text for text in printed(other) if text not in printed(facts)):
            mine, kits = ([text for text in printed(each) if form(text) == form(wanted)] for each in (facts, other))
            found = dict(zip(kits, mine)).get(wanted, "")
            return f"{facts.said} prints `{found.strip()}`, and the kit's `{wanted.strip()}`", fence


@claim("all update with the mean of their gradients in each step, and so keep the same parameters", look="ddp_hunt.step")
def averaged(run, kits):
    for rank, facts in enumerate(run.ranks):
        if len(facts.all("update")) != len(kits.all("update")):
            return f"ddp_5.py: rank {rank} makes {len(facts.all('update'))} updates in ten steps"
    for step, together in enumerate(zip(*(facts.all("update") for facts in (*run.ranks, kits)))):
        one, other, right = (update.norm for update in together)
        if abs(one - other) > 1e-3 * right:
            return f"ddp_5.py, step {step}: each process updates with a gradient of its own"
        if abs(one - right) > 1e-3 * right:
            return f"ddp_5.py, step {step}: the norm of the gradients is {one:.3g}, {one / right:.3g} times what it should be"


@claim("each process makes moves of its own, other ones in each step", look="ddp_hunt.noise")
def own_moves(run):
    made = [(step, rank, move) for step, moves in enumerate(moved(run)) for rank, move in enumerate(moves)]
    for place, (step, rank, move) in enumerate(made):
        for before, other, same in made[:place]:
            if move == same:
                return f"ddp_6.py: rank {rank} makes the move ({move}) in step {step}, as rank {other} does in step {before}"


@claim("a second run makes the same moves: random numbers that begin with SEED can be had again", look="ddp_hunt.noise")
def same_moves(run, first):
    return moved(run) != moved(first) and "ddp_6.py: a second run makes other moves than the first"


def form(text):
    return re.sub(r"\d+(\.\d+)?", "", text)


def moved(run):
    """For each step the first move of each process, as rank 0 prints them."""
    return [re.findall(r"\[(-?[\d.e-]+, -?[\d.e-]+)\]", text) for text in printed(run) if "moves" in text]


def printed(facts):
    return [fact.text for fact in facts.all("print")]
