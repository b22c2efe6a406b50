"""profiler_hunt: the cause is gone in each of the three scripts, by what it does and not by the clock; it learns as before."""

from dlojz.labs.checking import expect

OPENED = 12  # how often members of the archive may be opened
WAITS = {"a value is read": "to read a value", "tolist": "to read values", "repr": "to print values",
         "move": "to copy a tensor to the CPU"}


def check(probe):
    shapes = probe.call_beside(
        "hunt/slow_shapes.py", "Shapes", "how_many_images", by="images", look="profiler_hunt.shapes",
        observe=["spying"], spy=["zipfile.ZipFile.open"],
        words={"dtype": "it is {kits}, as in the archive: a quarter of float32 to keep, to collect and to copy",
               "value": "it is {kits}: what the archive holds at this index",
               "the memory that one image takes": "it is {kits}: an image is taken from the array without copying the others"},
        claim="slow_shapes.py: the archive is unpacked once, and a batch takes from memory what it needs")
    letters = probe.call_beside(
        "hunt/slow_letters.py", "count", "batches", by="table", look="profiler_hunt.letters", at_most=8, repeat=0, gpus=1,
        observe=["transfers"],
        words={"value": "it is {kits}: each letter counts, also where two of a batch belong to the same place of the table; the "
                        "row is the letter that it was, the column the one that was read",
               "time": "a few operations count the whole batch, however many letters it has; on a GPU each is a kernel to start"},
        claim="slow_letters.py: a few operations count a batch, no step asks for a value, and the table is right")
    few = "all answers come out of the same few operations, however many there are, and so does their loss"
    for_answers = {"look": "profiler_hunt.faces", "at_most": 1.5, "repeat": 0, "gpus": 1, "observe": ["transfers"]}
    faces = probe.call_beside(
        "hunt/slow_faces.py", "train", "a_training", by="losses", tolerance=2e-3, **for_answers,
        words={"value": "it is {kits}: the script is faster and learns the same, and what the rest of the file is given means "
                        "the same", "time": few},
        claim="slow_faces.py: a step takes as few operations for 40 answers as for one")
    probe.call_beside("hunt/slow_faces.py", "train", "many_answers", by="many", **for_answers,
                      words={"time": few})
    opened = shapes.mine.all("call", line=bool)
    expect(len(opened) <= OPENED, look=opened[-1] if opened else "",
           saw=f"slow_shapes.py: to get some dozens of images, arrays of the archive are unpacked {len(opened)} times",
           expected="what the archive holds is unpacked once, before the first step")
    for run in (letters.mine, faces.mine):
        for wait in run.all("sync", by="own", line=bool) + run.all("move", target="cpu", by="own", line=bool):
            how = wait.get("how", "move")
            why = WAITS.get(how, f"for a size that depends on values (`{how}`)")
            expect(False, saw=f"{run.script.removeprefix('hunt/')}: on a GPU each step waits {why}", look=wait,
                   expected="what is computed stays on the GPU: all sizes are known beforehand, and no step asks for a value")
    probe.unverified.append("waiting on a real GPU: that no step waits is judged by operations that are known to make it wait")
    probe.unverified.append("how much faster they are: compare your runs")
