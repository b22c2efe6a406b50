# right: torch's own counters, another where, amax, a sum by einsum, a minimum of tensors
# >>> compile.counts
from torch._dynamo.utils import counters

torch.compiler.reset()
counters.clear()
compiled, found = torch.compile(function, backend="eager", **options), []
for call in calls:
    before = counters["stats"]["unique_graphs"]
    compiled(*call)
    found.append(counters["stats"]["unique_graphs"] - before)
return found
# <<< compile.counts
# >>> compile.gate
class Gate(nn.Module):
    def forward(self, x):
        return x / (1 + (x.mean() > 1))
# <<< compile.gate
# >>> compile.peak
class Peak(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("peak", torch.zeros(()))

    def forward(self, x):
        y = x.clamp(min=0)
        with torch.no_grad():
            self.peak = torch.maximum(self.peak, y.amax())
        return y
# <<< compile.peak
# >>> compile.mask
class MaskedMean(nn.Module):
    def forward(self, x, valid):
        return x.masked_fill(~valid[..., None], 0).sum(1) / valid.sum(1)[:, None]
# <<< compile.mask
# >>> compile.warm
class WarmUp(nn.Module):
    def __init__(self, steps=10):
        super().__init__()
        self.steps, self.calls = steps, nn.Buffer(torch.tensor(0))

    def forward(self, x):
        self.calls.add_(1)
        return x * torch.minimum(self.calls / self.steps, torch.ones(()))
# <<< compile.warm
# >>> compile
if args.compile and args.compile_blocks:
    for block in net.modules():
        if block in list(activation_checkpointing.blocks(net)):
            block.compile(mode=args.compile)
if args.compile and not args.compile_blocks:
    model.compile(mode=args.compile)
# <<< compile

# right: counted by a class, the first differences, blocks in the other order of the branches
# >>> compile.counts
class Counting:
    count = 0

    def __call__(self, graph, inputs):
        self.count += 1
        return graph

torch._dynamo.reset()
backend, totals = Counting(), [0]
compiled = torch.compile(function, backend=backend, **options)
for call in calls:
    compiled(*call)
    totals.append(backend.count)
return [after - before for before, after in zip(totals, totals[1:])]
# <<< compile.counts
# >>> compile
mode = args.compile
if mode and not args.compile_blocks:
    model = torch.compile(model, mode=mode)
elif mode:
    [block.compile(mode=mode) for block in activation_checkpointing.blocks(net)]
# <<< compile

# wrong: no reset · expect: images of 3 sizes: what it returns is 1, 0, 0.*Expected: 1, 1, 0.*compile.counts
# >>> compile.counts
graphs, found = [], []

def backend(graph, inputs):
    graphs.append(graph)
    return graph.forward

compiled = torch.compile(function, backend=backend, **options)
for call in calls:
    before = len(graphs)
    compiled(*call)
    found.append(len(graphs) - before)
return found
# <<< compile.counts

# wrong: the options lost · expect: images of 3 sizes, with dynamic=True: what it returns is 1, 1, 0
# >>> compile.counts
graphs, found = [], []

def backend(graph, inputs):
    graphs.append(graph)
    return graph.forward

torch.compiler.reset()
compiled = torch.compile(function, backend=backend)
for call in calls:
    before = len(graphs)
    compiled(*call)
    found.append(len(graphs) - before)
return found
# <<< compile.counts

# wrong: the backend returns nothing · expect: `counts`, a function without a break.*stops with
# >>> compile.counts
graphs, found = [], []
torch.compiler.reset()
compiled = torch.compile(function, backend=lambda graph, inputs: graphs.append(graph), **options)
for call in calls:
    before = len(graphs)
    compiled(*call)
    found.append(len(graphs) - before)
return found
# <<< compile.counts

# wrong: out of the compiler's sight · expect: `Gate`.*new graphs per call are 0, 0, 0, 0.*compile.gate
# >>> compile.gate
class Gate(nn.Module):
    @torch.compiler.disable
    def forward(self, x):
        return x / 2 if x.mean().item() > 1 else x
# <<< compile.gate

# wrong: out of sight, and a graph beside it · expect: `Gate`.*with fullgraph=True is an error: .*one graph.*compile.gate
# >>> compile.gate
class Gate(nn.Module):
    @torch.compiler.disable
    def chosen(self, x):
        return x / 2 if x.mean().item() > 1 else x

    def forward(self, x):
        return self.chosen(x + 0)
# <<< compile.gate

# wrong: each number by itself · expect: `Gate`.*the output is .*compile.gate
# >>> compile.gate
class Gate(nn.Module):
    def forward(self, x):
        return torch.where(x > 1, x / 2, x)
# <<< compile.gate

# wrong: nothing kept where it is compiled · expect: `Peak`.*what it keeps, compiled is 0.*compile.peak
# >>> compile.peak
class Peak(nn.Module):
    def __init__(self):
        super().__init__()
        self.peak = 0.0

    def forward(self, x):
        y = torch.relu(x)
        if not torch.compiler.is_compiling():
            self.peak = max(self.peak, y.max().item())
        return y
# <<< compile.peak

# wrong: a product leaves NaN · expect: NaN where nothing is valid: the output is nan.*compile.mask
# >>> compile.mask
class MaskedMean(nn.Module):
    def forward(self, x, valid):
        return (x * valid.unsqueeze(2)).sum(1) / valid.sum(1, keepdim=True)
# <<< compile.mask

# wrong: still a Python number · expect: `WarmUp`.*new graphs per call are 1, 1, .*1, 0, 0, 0.*compile.warm
# >>> compile.warm
class WarmUp(nn.Module):
    def __init__(self, steps=10):
        super().__init__()
        self.steps, self.calls = steps, 0

    def forward(self, x):
        self.calls += 1
        return x * torch.tensor(self.calls / self.steps).clamp(max=1)
# <<< compile.warm

# wrong: thrown away · expect: step 1: this step does not use what was compiled.*the fence compile
# >>> compile
if args.compile and args.compile_blocks:
    for block in activation_checkpointing.blocks(net):
        block.compile(mode=args.compile)
elif args.compile:
    torch.compile(model, mode=args.compile)
# <<< compile

# wrong: the mode forgotten · expect: the mode is default.*the mode is max-autotune
# >>> compile
if args.compile and args.compile_blocks:
    for block in activation_checkpointing.blocks(net):
        block.compile(mode=args.compile)
elif args.compile:
    model = torch.compile(model)
# <<< compile

# wrong: always · expect: train.py --device cpu`, before the first step: torch.compile is given .* one too many
# >>> compile
model = torch.compile(model, mode=args.compile)
# <<< compile

# wrong: without its DDP · expect: torch.compile is given a .*a DistributedDataParallel
# >>> compile
if args.compile and args.compile_blocks:
    for block in activation_checkpointing.blocks(net):
        block.compile(mode=args.compile)
elif args.compile:
    model = torch.compile(net, mode=args.compile)
# <<< compile

# wrong: blocks and the whole · expect: one too many.*with --compile-blocks each block, once
# >>> compile
if args.compile_blocks:
    for block in activation_checkpointing.blocks(net):
        block.compile(mode=args.compile)
if args.compile:
    model = torch.compile(model, mode=args.compile)
# <<< compile

# wrong: layers rather than blocks · expect: torch.compile is given a .*a Block
# >>> compile
if args.compile and args.compile_blocks:
    for block in net.children():
        block.compile(mode=args.compile)
elif args.compile:
    model = torch.compile(model, mode=args.compile)
# <<< compile

# wrong: before channels-last · expect: weights in other formats
# >>> channels_last.model
if args.compile and args.compile_blocks:
    for block in activation_checkpointing.blocks(net):
        block.compile(mode=args.compile)
elif args.compile and procs.world_size == 1:
    net = torch.compile(net, mode=args.compile)
if args.channels_last:
    net = net.to(memory_format=torch.channels_last)
# <<< channels_last.model
# >>> compile
if args.compile and not args.compile_blocks and procs.world_size > 1:
    model = torch.compile(model, mode=args.compile)
# <<< compile
