"""profiler_hunt: the cause is gone in each of the three scripts, by what it does and not by the clock; it learns as before."""

from dlojz.labs.checking import expect

STEPS, BATCH, ANSWERS = 12, 8, 40  # of the runs in calls.py; what slow_faces.py answers
FLIPPED = 0.02  # of the answers that are right: so few may turn with rounding
FEW = 4  # operations more than the kit's own, for each letter of a batch


def check(probe):
    shapes, letters, faces = (trained(probe, name) for name in ("shapes", "letters", "faces"))
    shapes_are_unpacked_once(shapes)
    learns_as_before(shapes, "slow_shapes.py", "profiler_hunt.shapes")
    probe.verified.append("slow_shapes.py: the archive is unpacked once, and a batch takes from memory what it needs")
    letters_are_counted_at_once(letters)
    learns_as_before(letters, "slow_letters.py", "profiler_hunt.letters")
    letters_stay_on_the_gpu(probe.call("hunt/slow_letters.py", "letters_on_a_gpu",
                                       "`count` of `hunt/slow_letters.py`, given a batch on a GPU,", gpus=1))
    probe.verified.append("slow_letters.py: a few operations count a batch, no step asks for a value, and the table is right")
    faces_are_answered_at_once(faces)
    learns_as_before(faces, "slow_faces.py", "profiler_hunt.faces")
    probe.verified.append("slow_faces.py: a step takes as few operations for 40 answers as for one")
    probe.unverified.append("waiting on a real GPU: that no step waits is judged by operations that are known to make it wait")
    probe.unverified.append("how much faster they are: compare your runs")


def trained(probe, name):
    file = f"hunt/slow_{name}.py"
    return probe.call(file, name, f"a short training of `{file}`")


def shapes_are_unpacked_once(run):
    reads, last = run.need("reads").count, next(reversed(run.all("read")), None)
    expect(reads < STEPS,
           saw=f"slow_shapes.py: in {STEPS} steps of {BATCH} images, arrays of the archive are unpacked {reads} times",
           expected="what the archive holds is unpacked once, before the first step",
           look=last)
    image = run.all("item")[-1]
    expect(image.dtype == "uint8",
           saw=f"slow_shapes.py: an image comes as {image.dtype}",
           expected="it is uint8, as in the archive: a quarter of float32 to keep, to collect and to copy",
           look="profiler_hunt.shapes")
    item = image.bytes
    expect(item < 2**15,
           saw=f"slow_shapes.py: to get one image of 256 bytes, {item:,} bytes are written",
           expected="an image is taken from the array without copying the others",
           look="profiler_hunt.shapes")


def letters_are_counted_at_once(run):
    training, table = run.need("training"), run.need("table")
    values = run.all("value")
    expect(len(values) < STEPS // 2,
           saw=f"slow_letters.py: {STEPS} steps of {BATCH} letters ask for {len(values)} values of tensors; on a GPU the "
               "process waits each time",
           expected="what is counted stays a tensor, and no step asks for its value",
           look=values and values[-1])
    sized = run.all("sized")
    expect(len(sized) < STEPS // 2,
           saw=f"slow_letters.py: steps ask for tensors whose size depends on values ({sized and sized[-1].operation}); on a GPU "
               "the process waits each time to hear how large they are",
           expected="all sizes are known beforehand: LETTERS, and the letters of a batch",
           look=sized and sized[-1])
    more = training.operations[-1] - training.kits_operations[-1]
    expect(more <= FEW * BATCH,
           saw=f"slow_letters.py: a step with {BATCH} letters comes to {training.operations[-1]:,} operations, most to count",
           expected="a few operations count the whole batch, however many letters it has",
           look="profiler_hunt.letters")
    counting = run.need("counting")
    (few, many), (small, large) = counting.operations, counting.batches
    expect(many <= few,
           saw=f"slow_letters.py: it takes {few} operations to count {small} letters, and {many} to count {large}: each letter, "
               "or each few of them, is counted by itself",
           expected="as many operations for a large batch as for a small one; on a GPU each of them is a kernel to start",
           look="profiler_hunt.letters")
    counted, there = (sum(map(sum, each)) for each in (table.mine, table.kits))
    expect(counted == there,
           saw=f"slow_letters.py: the table has counted {counted} letters out of {there}",
           expected="each letter counts, also where two of a batch belong to the same place of the table",
           look="profiler_hunt.letters")
    expect(table.mine == table.kits,
           saw="slow_letters.py: the table has other numbers in it than the one that counts letter by letter",
           expected="the row is the letter that it was, the column the one that was read",
           look="profiler_hunt.letters")


def letters_stay_on_the_gpu(run):
    """What the CPU alone does not show: `.cpu()` copies nothing there, and no device differs from another."""
    run.need("counted")
    events = run.events
    back = [event for event in events[events.index(run.need("begin")):] if event.what == "move" and event.target == "cpu"]
    expect(not back,
           saw=f"slow_letters.py: on a GPU each step copies {len(back)} tensors to the CPU, and the process waits for each",
           expected="what is counted stays where it is, on the GPU",
           look=back and back[0])


def faces_are_answered_at_once(run):
    training = run.need("training")
    more = training.operations[-1] - training.kits_operations[-1]
    expect(more < ANSWERS,
           saw=f"slow_faces.py: a step comes to {training.operations[-1]:,} operations, so some are still done answer by answer",
           expected="all answers come out of the same few operations, and so does their loss",
           look="profiler_hunt.faces")
    asked = run.need("asked")
    expect(asked.operations is None or asked.operations <= training.operations[-1],
           saw=f"slow_faces.py: a step comes to {training.operations[-1]:,} operations, and with ANSWERS = {asked.answers} to "
               f"{asked.operations or 0:,}, so the answers are still done in pieces",
           expected="all answers come out of the same few operations, however many there are, and so does their loss",
           look="profiler_hunt.faces")


def learns_as_before(run, name, fence):
    training = run.need("training")
    other = next((step for step, pair in enumerate(zip(training.losses, training.kits_losses), 1) if differ(*pair)), 0)
    expect(not other,
           saw=f"{name}: with the same seed the loss of step {other} is {training.losses[other - 1]:.4f}, and it was "
               f"{training.kits_losses[other - 1]:.4f}",
           expected="the script is faster and learns the same",
           look=fence)
    expect(abs(training.right - training.kits_right) <= FLIPPED * training.kits_right,
           saw=f"{name}: the losses are the same, but in {STEPS} steps {training.right:.3g} answers count as right, and it was "
               f"{training.kits_right:.3g}",
           expected="what the rest of the file is given means the same as before",
           look=fence)


def differ(one: float, other: float) -> bool:
    return not abs(one - other) <= 1e-3 * max(1, abs(other))
