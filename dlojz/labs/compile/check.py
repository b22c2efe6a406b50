"""compile: a backend that counts; four modules with one graph each; in train.py the model is compiled as it is trained."""

MODULES = {"gate": ("Gate", "gate", "batches"), "peak": ("Peak", "peak", "batches"),
           "mask": ("MaskedMean", "masked_mean", "texts"), "warm": ("WarmUp", "warm_up", "batches")}
SAME = "{kits}: compiled or not, the module gives what it gave before"
WORDS = {
    "the output": SAME, "the gradient": SAME, "what it keeps": SAME,
    "the output, compiled": SAME, "what it keeps, compiled": SAME,
    "the result with fullgraph=True": "{kits}: it has everything that the module does, with no Python in between",
    "new graphs per call": "{kits}: one graph in the first call, which fits all later ones"}
COUNTS = {"what it returns": "{kits}: a number for each call, of the graphs that are new in it",
          "error": "it returns a list of numbers"}


def check(probe):
    probe.call_beside("compiling.py", "counts", "functions", by="counting", look="compile.counts", words=COUNTS,
                      claim="`counts` counts the graphs of each call: breaks, new shapes and dtypes, nothing of an earlier count")
    for fence, (name, by, inputs) in MODULES.items():
        probe.call_beside("compiling.py", name, inputs, by=by, look=f"compile.{fence}", words=WORDS)
    probe.pairs[-1].says("the four modules have one graph each, and give what they gave before")
    plain = probe.beside("--device cpu")
    mode = probe.beside("--device cpu --compile max-autotune --channels-last")
    blocks = probe.beside("--device cpu --compile reduce-overhead --compile-blocks")
    two = probe.beside("--device cpu --compile", ranks=2, local_ranks=[0, 0], solved=["ddp"])
    for both in (plain, mode, blocks, two):
        table(both)
    mode.says("with --compile the model that is trained is compiled, once, in the mode that was asked for, after channels-last")
    blocks.says("with --compile-blocks each block is compiled, in that mode")
    two.says("with two processes it is compiled together with its DistributedDataParallel")
    probe.unverified.append("what the compiler makes of it, and that it is faster: look at your runs")


def table(both):
    row = {"look": "compile"}
    both.same("compiled.missing", **row, saw="nothing is compiled (or less than should be)",
              expected="{kits} is, before the first step")
    both.same("compiled.extra", **row, saw="torch.compile is given {mine}, and this is one too many",
              expected="with --compile the whole model is compiled, once; with --compile-blocks each block, once; else nothing")
    both.same("compiled.kind", **row, saw="torch.compile is given a {mine}",
              expected=lambda each: f"it is given a {each.kits}" + (
                  ": it cuts its graph where DDP sends gradients" if "Parallel" in each.kits else ""))
    both.same("compiled.mode", **row, saw="the mode is {mine}", expected="the mode is {kits}, as the switch says")
    both.same("compiled.formats", **row, saw="the model that is compiled has weights in other formats: {mine}",
              expected="it is compiled when it is as it will be trained: {kits}")
    both.same("compiled.used", **row, saw="this step does not use what was compiled",
              expected="each step calls what torch.compile has returned")
