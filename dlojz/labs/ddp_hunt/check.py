"""ddp_hunt: each of six scripts does what its first lines promise. Two processes run each of them."""

import itertools
import re

from dlojz.labs.checking import expect
from dlojz.labs.ranks import ended_together


def check(probe):
    # Each process believes that it is alone on its node: rank 0 and rank 1 have both the local rank 0.
    options = {"small": False, "ranks": 2, "replicas": True, "slow_save": True, "on_cpu": True, "local_ranks": [0, 0],
               "observe": ["layers", "printing", "replicas"]}
    runs = {number: probe.run(script=f"hunt/ddp_{number}.py", **options) for number in range(1, 7)}
    again = probe.run(script="hunt/ddp_6.py", **options)
    for number, judge in enumerate((orders, accuracy, checkpoint, saving, parameters, moves), 1):
        ended_together(runs[number])
        judge(runs[number])
        probe.verified.append(f"ddp_{number}.py: {SAYS[number]}")
    ended_together(again)
    expect(printed(runs[6].ranks[0]) == printed(again.ranks[0]),
           saw="ddp_6.py: a second run makes other moves than the first",
           expected="the same ones: random numbers that begin with SEED can be had again",
           look="ddp_hunt.noise")
    probe.verified.append("ddp_6.py: a second run makes the same moves")
    probe.unverified.append("several nodes: here processes only believe that they are on two")


SAYS = {1: "each epoch has another order, and no point is seen twice",
        2: "the accuracy is that of all points, on both ranks",
        3: "one process saves, and what it saved is loaded whole",
        4: "both processes go on, after the file is there",
        5: "both have the same parameters after each step, from the mean of their gradients",
        6: "the processes make different moves, and other ones in each step"}


OWN = (7, 3)  # points that the processes of ddp_2.py have


def orders(run):
    fence = "ddp_hunt.epochs"
    epochs = []
    for facts in run.ranks:
        given = [fact.rows for fact in facts.all("given", training=True)]
        expect(len(given) == 12,
               saw=f"ddp_1.py: a rank is given {len(given)} batches in three epochs",
               expected="12: in each epoch four, a half of the points",
               look=fence)
        epochs.append([[row for rows in given[4 * number : 4 * number + 4] for row in rows] for number in range(3)])
    for number, (one, two) in enumerate(zip(*epochs)):
        expect(len({*one, *two}) == 64,
               saw=f"ddp_1.py: in epoch {number} both processes together see {len({*one, *two})} of the 64 points",
               expected="each point once",
               look=fence)
    expect(len({tuple(epoch) for epoch in epochs[0]}) == 3,
           saw="ddp_1.py: two epochs deal out the points in the same order",
           expected="another order in each",
           look=fence)
    expect(epochs[0][0] != sorted(epochs[0][0]) and not in_steps(run.ranks[0]),
           saw="ddp_1.py: the points come in the order in which they lie",
           expected="they are shuffled",
           look=fence)


def in_steps(facts):
    """Whether rank 0 says that it begins with 0, 2, 4, …"""
    return any("[0, 2, 4, 6, 8, 10]" in said or "[0, 1, 2, 3, 4, 5]" in said for said in printed(facts))


def accuracy(run):
    said = [number(text) for text in printed(run.ranks[0]) if ":" in text]
    expect(len(said) == 3,
           saw=f"ddp_2.py: rank 0 prints {len(said)} numbers",
           expected="three: its own over all points, and one of each rank",
           look="ddp_hunt.accuracy")
    truth, *found = said
    for rank, value in enumerate(found):
        expect(value is not None and abs(value - truth) < 1e-3,
               saw=f"ddp_2.py: rank {rank} says that the accuracy is {value}, of ten points together it is {truth}",
               expected="each point counts the same, whichever process has it",
               look="ddp_hunt.accuracy")


    for rank, (facts, own) in enumerate(zip(run.ranks, OWN)):
        passes = [len(fact.rows) for fact in facts.all("given", training=False)]
        if rank == 0:
            passes = passes[:-1]  # rank 0 looks at all ten afterwards, to compare
        expect(max(passes, default=0) <= own,
               saw=f"ddp_2.py: rank {rank} looks at {max(passes, default=0)} points to find the accuracy",
               expected=f"each looks at its own part, rank {rank} at {own}: that is what there are several processes for",
               look="ddp_hunt.accuracy")


def checkpoint(run):
    for rank, facts in enumerate(run.ranks):
        saved = facts.all("save", path=to_a_file)
        expect(len(saved) == (rank == 0),
               saw=f"ddp_3.py: rank {rank} saves {len(saved)} times",
               expected="rank 0 saves once, the others not at all",
               look=saved[-1] if saved and saved[-1].line else "ddp_hunt.checkpoint")
    trained, loaded = map(float, re.findall(r"\d+\.\d+", " ".join(printed(run.ranks[0]))))
    expect(abs(trained - loaded) < 1e-3,
           saw=f"ddp_3.py: the loss of the trained model is {trained}, of what was loaded {loaded}",
           expected="the same: the file holds the parameters under the names that the model gives them",
           look="ddp_hunt.checkpoint")


def saving(run):
    for rank, facts in enumerate(run.ranks):
        saved = facts.all("save", path=to_a_file)
        expect(len(saved) == (2 if rank == 0 else 0),
               saw=f"ddp_4.py: rank {rank} saves {len(saved)} times in two epochs",
               expected="rank 0 saves once an epoch, the others never",
               look="ddp_hunt.saving")
        said = " ".join(printed(facts))
        expect("epoch 1" in said,
               saw=f"ddp_4.py: {said.strip() or f'rank {rank} prints nothing'}",
               expected="when it goes on, the file of the last epoch is there: epoch 1",
               look="ddp_hunt.saving")


def parameters(run):
    fence = "ddp_hunt.step"
    for rank, facts in enumerate(run.ranks):
        updates = len(facts.all("replica"))
        expect(updates == 10,
               saw=f"ddp_5.py: rank {rank} makes {updates} updates in ten steps",
               expected="all make ten: the same update in each process, in each step",
               look=fence)
    steps = list(zip(*(facts.all("replica") for facts in run.ranks)))
    kept = 0.0  # what the gradients of a step would be, had none been set back
    for step, together in enumerate(steps):
        alone, given = zip(*((replica.alone, replica.gradient) for replica in together))
        if None in alone:
            break
        mean = sum(alone) / len(alone)
        kept += mean
        expect(not all(near(one, other) for one, other in zip(given, alone)),
               saw="ddp_5.py: each process updates with the gradient of its own points alone",
               expected="all update with the mean of their gradients",
               look=fence)
        guesses = {": there are no gradients, or zeros": 0, ": it is their sum": 2 * mean,
                   ": the gradients of the steps before are still in it": kept if step else None}
        guess = next((words for words, value in guesses.items() if all(near(one, value) for one in given)), "")
        expect(all(near(one, mean) for one in given),
               saw=f"ddp_5.py: what the optimizer is given in step {step} is not the mean of the two gradients{guess}",
               expected="all update with the mean of their gradients in this step",
               look=fence)
    for step, (one, two) in enumerate(steps):
        expect(near(one.weights, two.weights),
               saw=f"ddp_5.py: the parameters of the two differ after step {step}",
               expected="they are the same after every step",
               look=fence)
    expect(all(not near(before.gradient, 0) and before.weights != after.weights
               for (before, _), (after, _) in itertools.pairwise(steps)),
           saw="ddp_5.py: a step leaves the parameters as they were",
           expected="each step updates them",
           look=fence)


def moves(run):
    fence = "ddp_hunt.noise"
    said = [re.findall(r"\[(-?[\d.]+), (-?[\d.]+)\]", text) for text in printed(run.ranks[0]) if "moves" in text]
    for step, (one, two) in enumerate(said):
        expect(one != two,
               saw=f"ddp_6.py: in step {step} both processes move their first point by ({', '.join(one)})",
               expected="each makes moves of its own",
               look=fence)
    firsts = [one for one, _ in said]
    expect(len(set(firsts)) == 3,
           saw="ddp_6.py: a process makes the same moves in two steps",
           expected="other moves in each step",
           look=fence)
    again = {one for one, _ in said} & {two for _, two in said}
    expect(not again,
           saw=f"ddp_6.py: both processes make the move ({', '.join(min(again, default=()))}), in different steps",
           expected="moves that no other process makes, now or later: two generators that begin alike give the same numbers",
           look=fence)


def to_a_file(path):
    return path is not None  # else a tensor on its way to another process


def printed(facts):
    return [fact.text for fact in facts.all("print")]


def number(text):
    found = re.search(r"-?\d+\.\d+", text)
    return float(found[0]) if found else None


def near(one, other):
    return one is not None and other is not None and abs(one - other) <= 1e-4 * max(abs(one), abs(other), 1e-4)
