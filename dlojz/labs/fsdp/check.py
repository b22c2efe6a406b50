"""fsdp: what processes send and hold, beside one process that has everything."""

from dlojz.labs.checking import expect

SAME = 1e-4  # of a loss: sums in another order differ by less
BLOCKS = 4  # of the model in calls.py


def check(probe):
    def call(function, doing, ranks=2):
        return probe.call("sharding.py", function, f"{doing} with {ranks} processes", ranks=ranks)

    runs = (call("spread", "`shard`"), call("cast", "`precision`"), call("grouped", "`accumulate`"), call("early", "`prefetch`"),
            call("kept", "the use of `save`, `load` and `whole`"), call("replicated", "`make_mesh`", 4))
    for run, judge in zip(runs, (sharded, in_bf16, in_groups, ahead, checkpoints, replicas)):
        judge(run)
        for rank in run.ranks:
            rank.finish()
    probe.verified += [
        "two processes hold half of each parameter, gather block by block, and have the losses of one process",
        "with bf16, parameters are sent and computed with in bfloat16, gradients are summed and kept in float32",
        "gradients are sent after the last batch of a group only, and are those of all batches of all processes",
        "the next blocks are gathered while one computes",
        "a checkpoint, also one that is written aside, gives back parameters and states bit by bit; rank 0 has the whole model",
        "a checkpoint of four parts is read into two replicas of two parts, bit by bit"]
    probe.unverified.append("NCCL, and what a GPU holds at its peak: that takes two GPUs")


def sharded(run):
    for keep in (False, True):
        parts = run.need("parts", keep=keep)
        said, look = f"`shard(net, mesh, policy, keep={keep})`", "fsdp.shard"
        expect(not parts.plain, saw=f"{said}: each process holds all of {listed(parts.plain)}",
               expected="its part of every parameter, also of what is in no block", look=look)
        alone = [f"blocks.{number}" for number in range(BLOCKS) if f"blocks.{number}" not in parts.modules]
        expect(not alone, saw=f"{said}: {listed(alone)} {'is' if len(alone) == 1 else 'are'} not gathered separately",
               expected="each block is gathered by itself, and freed: that is the memory saved",
               look=look)
        expect(len(parts.modules) == BLOCKS + 1, saw=f"{said} spreads {len(parts.modules)} modules: {listed(parts.modules)}",
               expected=f"the {BLOCKS} blocks and the root", look=look)
        expect(0.4 < parts.own / parts.all < 0.6, saw=f"{said}: a process holds {parts.own:,} of {parts.all:,} bytes",
               expected="half of them, as there are two processes: the mesh says how the parameters are split", look=look)
        for one in run.all("passes", keep=keep, number=1):
            gathers = one.forward.get("all_gather", {}).get("count", 0)
            expect(gathers == BLOCKS + 1, saw=f"{said}: {gathers} all-gathers in a forward pass",
                   expected=f"{BLOCKS + 1}: one per block and one for the root", look=look)
            again, right = one.backward.get("all_gather", {}).get("count", 0), 0 if keep else BLOCKS
            expect(again == right, saw=f"{said}: {again} all-gathers in a backward pass",
                   expected=f"{right}: " + ("all blocks are still whole" if keep else "each block is gathered again, the root is "
                                            "still whole"), look=look)
            scattered = one.backward.get("reduce_scatter", {}).get("count", 0)
            expect(scattered == BLOCKS + 1, saw=f"{said}: {scattered} reduce-scatters in a backward pass",
                   expected=f"{BLOCKS + 1}: one per block and one for the root", look=look)
        for one in run.all("passes", keep=keep):
            expect(abs(one.loss - one.right) < SAME * one.right, saw=f"{said}: the loss of step {one.number} is {one.loss:.6g}",
                   expected=f"{one.right:.6g}, as with one process that has all rows", look=look)
    formats = run.need("policy").formats
    expect(set(formats) == {"bfloat16"}, saw="`shard(net, mesh, policy)`, where the policy says bfloat16: "
           f"{formats.count('float32')} of {len(formats)} modules are gathered in float32",
           expected="all in bfloat16: blocks and root are given the `policy`", look="fsdp.shard")


def in_bf16(run):
    look = "fsdp.precision"
    for amp, kind in (("off", "float32"), ("bf16", "bfloat16")):
        one, said = run.need("cast", amp=amp), f'`precision("{amp}")`'
        rows = (("a block computes with weights in", one.weight, kind, ""),
                ("parameters are gathered in", one.sent["all_gather"]["dtype"], kind, ""),
                ("gradients are summed over processes in", one.sent["reduce_scatter"]["dtype"], "float32",
                 ": a sum of many in bfloat16 has 8 bits"),
                ("the `turn` that a block is given is", one.turn, "float32", ": inputs stay as they are, angles of a rotary "
                 "embedding among them"),
                ("a process keeps its part in", one.kept, "float32", ": small updates would be lost"))
        for words, mine, right, why in rows:
            expect(mine == right, saw=f"{said}: {words} {mine}", expected=f"{right}{why}", look=look)


def in_groups(run):
    look = "fsdp.accumulate"
    for group in ("first", "second"):
        one = run.need("group", number=int(group == "second"))
        right = [0, 0, BLOCKS + 1]
        expect(one.sends == right, saw=f"reduce-scatters in the three batches of the {group} group: {listed(one.sends)}",
               expected=f"{listed(right)}: only the last batch sends, and it sends the sum", look=look)
        expect(abs(one.norm - one.right) < 1e-3 * one.right, saw=f"the gradient of a block has the norm {one.norm:.4g}",
               expected=f"{one.right:.4g}, that of all batches of all processes", look=look)


def ahead(run):
    for number in (1, 2):
        one = run.need("ahead", ahead=number)
        for where, counts, order, right_order in (("forward", one.forward, one.order[0], list(range(BLOCKS))),
                                                  ("backward", one.backward, one.order[1], list(range(BLOCKS))[::-1])):
            right = [min(number, left) for left in range(BLOCKS - 1, -1, -1)]
            expect(counts == right, saw=f"`prefetch(net, {number})`, {where} pass: when the blocks compute, {listed(counts)} of "
                   "those after each are gathered already", expected=f"{listed(right)}", look="fsdp.prefetch")
            expect(order == right_order, saw=f"`prefetch(net, {number})`, {where} pass: blocks are gathered in the order "
                   f"{listed(order)}", expected=f"{listed(right_order)}: gathers run one after the other, and a block waits for "
                   "those that were asked for before its own", look="fsdp.prefetch")


def checkpoints(run):
    saved = run.need("saved")
    expect(saved.files > 0, saw="`save` writes no file into the folder", expected="parameters and states are in it",
           look="fsdp.save")
    expect(saved.share < 0.75, saw=f"`save`: one file has {saved.share:.0%} of all bytes",
           expected="each process writes its own half, at the same time: no process holds or sends the whole", look="fsdp.save")
    at_once = run.need("read", how="at once")
    restored(at_once.wrong, "`save`, then `load` into a new model and a new optimizer", "fsdp.load")
    first, others = run.need("whole"), [rank.need("whole") for rank in run.ranks[1:]]
    look = "fsdp.whole"
    expect(first.count > 0, saw="`whole` returns nothing on rank 0", expected=f"{first.names} tensors by name", look=look)
    expect(first.plain == first.count, saw=f"`whole`: {first.count - first.plain} of {first.count} values on rank 0 are no plain "
           "tensors", expected="each is whole: a program without processes is to load them", look=look)
    expect(not first.wrong, saw=f"`whole`: {first.wrong} is not that of the model", expected="the model's names, and its numbers",
           look=look)
    expect(not any(one.count for one in others), saw=f"`whole` returns {others[0].count} tensors on rank 1, too",
           expected="none there: a node has memory for one copy, and not for one per process", look=look)
    aside, look = run.need("aside"), "fsdp.save"
    expect(aside.future, saw="`save(…, wait=False)` returns no future", expected="one whose `result()` waits for the files",
           look=look)
    expect(not aside.among, saw="`save(…, wait=False)`: the thread that writes sends its messages in the process group of the "
           "training", expected="in a group of its own, `aside()`: else a training that goes on receives them", look=look)
    expect(not aside.failed, saw=f"`save(…, wait=False)`: the future ends with {aside.failed}", expected="the files are written",
           look=look)
    expect(not aside.at_once, saw="`save(…, wait=False)` returns when the files are written already", look=look,
           expected="it returns as soon as all is copied, and a thread writes: training goes on meanwhile")
    restored(run.need("read", how="aside").wrong, "`save(…, wait=False)`, a step of training, then `load`", look,
             "as they were when `save` was called: they are copied before it returns, and then written")


def restored(wrong, said, look, when="the same, bit by bit"):
    expect(not wrong, saw=f"{said}: {wrong} is not what was saved",
           expected=f"parameters, and all states and the learning rate of the optimizer, are {when}", look=look)


def replicas(run):
    look = "fsdp.mesh"
    for number, names, ranks in ((1, ["shard"], [0, 1, 2, 3]), (2, ["replicate", "shard"], [[0, 1], [2, 3]])):
        mesh, said = run.need("mesh", replicas=number), f"`make_mesh(device, {number})` with four processes"
        expect(mesh.ranks == ranks, saw=f"{said}: the mesh is {mesh.ranks}", expected=f"{ranks}: neighbours share a replica",
               look=look)
        expect(mesh.names == names, saw=f"{said}: its dimensions are {listed(mesh.names) or 'without names'}",
               expected=listed(names), look=look)
    restored(run.need("resharded").wrong, "saved by four processes with a quarter each, loaded into halves", "fsdp.load")
    one = run.need("replicas")
    expect(one.sent.get("all_reduce", {}).get("count", 0) == BLOCKS + 1, look="fsdp.shard",
           saw="with a mesh of two replicas the gradients of the replicas are not summed",
           expected="an all-reduce between replicas per block and for the root: `shard` is given the mesh")
    expect(abs(one.loss - one.right) < SAME * one.right, look="fsdp.load", saw=f"the loss after loading is {one.loss:.6g}",
           expected=f"{one.right:.6g}, as without a checkpoint")


def listed(values):
    *first, last = map(str, values or [""])
    return f"{', '.join(first)} and {last}" if first else last
