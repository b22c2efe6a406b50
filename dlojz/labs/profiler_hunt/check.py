"""profiler_hunt: the cause is gone in each of the three scripts, by what it does and not by the clock; it learns as before."""

from dlojz.labs.checking import claim

OPENED = 12  # how often members of the archive may be opened for 34 images
WAITS = {"a value is read": "to read a value", "tolist": "to read values", "repr": "to print values"}
FEW = 10  # operations to count a batch: so many times those of the kit


def check(probe):
    shapes = probe.call_beside(
        "hunt/slow_shapes.py", "Shapes", "how_many_images", by="images", look="profiler_hunt.shapes", at_most=5, repeat=2,
        observe=["spying"], spy=["zipfile.ZipFile.open"],
        words={"dtype": "it is {kits}, as in the archive: a quarter of float32 to keep, to collect and to copy",
               "value": "it is {kits}: what stands at this index in the archive",
               "speed": "an image is taken from the array without copying the others"},
        claim="slow_shapes.py: the archive is unpacked once, and a batch takes from memory what it needs")
    shapes.holds(unpacked_once)
    letters = probe.call_beside(
        "hunt/slow_letters.py", "count", "batches", by="table", look="profiler_hunt.letters", count=True, gpus=1,
        observe=["transfers"],
        words={"value": "it is {kits}: each letter counts, also where two of a batch belong to the same place of the table; the "
                        "row is the letter that it was, the column the one that was read"},
        claim="slow_letters.py: a few operations count a batch, no step asks for a value, and the table is right")
    letters.holds(no_waiting, "profiler_hunt.letters")
    letters.holds(counted_at_once)
    faces = probe.call_beside(
        "hunt/slow_faces.py", "train", "how_many_answers", by="losses", look="profiler_hunt.faces", count=True, tolerance=2e-3,
        observe=["transfers"], gpus=1,
        words={"value": "it is {kits}: the script is faster and learns the same, and what the rest of the file is given means "
                        "the same"},
        claim="slow_faces.py: a step takes as few operations for 40 answers as for one")
    faces.holds(no_waiting, "profiler_hunt.faces")
    faces.holds(answered_at_once)
    probe.unverified.append("waiting on a real GPU: that no step waits is judged by operations that are known to make it wait")
    probe.unverified.append("how much faster they are: compare your runs")


@claim("what the archive holds is unpacked once, before the first step", look="profiler_hunt.shapes")
def unpacked_once(run):
    opened = run.all("call", line=bool)
    return len(opened) > OPENED and (
        f"slow_shapes.py: for 34 images, arrays of the archive are unpacked {len(opened)} times", opened[-1])


@claim("what is counted stays a tensor on the GPU: all sizes are known beforehand, and no step asks for a value", look="")
def no_waiting(run, fence):
    name = run.script.removeprefix("hunt/")
    if back := run.all("move", target="cpu", by="own", line=bool):
        return f"{name}: on a GPU each step copies tensors to the CPU (of shape {back[0].shape}), and the process waits", back[0]
    waits = run.all("sync", by="own", line=bool)
    why = WAITS.get(waits[0].how, f"for a size that depends on values (`{waits[0].how}`)") if waits else ""
    return waits and (f"{name}: on a GPU the process waits, {len(waits)} times in all, {why}", waits[0])


@claim("a few operations count the whole batch, however many letters it has; on a GPU each is a kernel to start",
       look="profiler_hunt.letters")
def counted_at_once(run):
    small, large = run.all("case")
    takes = f"slow_letters.py: it takes {small.operations:,} operations to count {small.name}"
    if large.operations > small.operations:
        return f"{takes}, and {large.operations:,} for {large.name}"
    return small.operations > FEW * small.kits_operations and f"{takes}, where {small.kits_operations} are enough"


@claim("all answers come out of the same few operations, however many there are, and so does their loss",
       look="profiler_hunt.faces")
def answered_at_once(run):
    forty, eighty = run.all("case")
    more = (forty.operations - forty.kits_operations) / 12
    if more >= 40:
        return f"slow_faces.py: a step takes {more:.0f} operations more than it needs: some are still done answer by answer"
    more = (eighty.operations - forty.operations) / 12
    return more > 0 and f"slow_faces.py: with twice the ANSWERS a step takes {more:.0f} operations more: some are done in pieces"
