# right: written in a different way
# >>> parallelism.sums
class Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        total = grad.contiguous().clone()
        dist.all_reduce(total, op=dist.ReduceOp.SUM, group=ctx.group)
        return total, None


class Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        total = x.detach().clone()
        work = dist.all_reduce(total, group=group, async_op=True)
        work.wait()
        return total

    @staticmethod
    def backward(ctx, grad):
        return grad.clone(), None
# <<< parallelism.sums
# >>> parallelism.split
size = up.out_features // dist.get_world_size(group)
mine = slice(dist.get_rank(group) * size, (dist.get_rank(group) + 1) * size)
with torch.no_grad():
    self.up = nn.Parameter(up.weight[mine].clone())
    self.up_bias = nn.Parameter(up.bias[mine].clone())
    self.down = nn.Parameter(down.weight[:, mine].clone())
    self.bias = nn.Parameter(down.bias.clone())
# <<< parallelism.split
# >>> parallelism.forward
hidden = F.gelu(Copied.apply(x, self.group) @ self.up.T + self.up_bias)
return Summed.apply(hidden @ self.down.T, self.group) + self.bias
# <<< parallelism.forward
# >>> parallelism.ring
from torch.distributed.nn.functional import all_to_all_single

rank, world = dist.get_rank(group), dist.get_world_size(group)
result, total, both = 0.0, 0.0, torch.stack((k, v))
for turn in range(world):
    source = (rank - turn) % world
    scores = q @ both[0].mT / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).tril((rank - source) * len(scores[0, 0])) == 0, -math.inf)
    result, total = result + scores.exp() @ both[1], total + scores.exp().sum(-1, keepdim=True)
    if turn < world - 1:
        send, receive = ([2 * (other == (rank + way) % world) for other in range(world)] for way in (1, -1))
        both = all_to_all_single(torch.empty_like(both), both, receive, send, group)
return result / total
# <<< parallelism.ring

# right: in two passes
# >>> parallelism.one_f_one_b
ahead = devices - device - 1
order, backward = [], 0
for batch in range(microbatches):
    order.append(("F", device, batch))
    if batch >= ahead:
        order.append(("B", device, backward))
        backward += 1
while backward < microbatches:
    order.append(("B", device, backward))
    backward += 1
return order
# <<< parallelism.one_f_one_b
# >>> parallelism.bubble
total = sum(seconds)
idle = {"gpipe": total, "1f1b": total, "interleaved": total / chunks, "zero_bubble": total - 2 * seconds[2]}[schedule]
return (devices - 1) * idle / ((devices - 1) * idle + microbatches * total)
# <<< parallelism.bubble
# >>> parallelism.ring
rank, world = dist.get_rank(group), dist.get_world_size(group)
results, sums = [], []
for turn in range(world):
    source = (rank - turn) % world
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if causal and source == rank:
        scores = scores + torch.full_like(scores, -math.inf).triu(1)
    elif causal and source > rank:
        scores = scores - 1e30
    sums.append(scores.logsumexp(-1, keepdim=True))
    results.append(scores.softmax(-1) @ v)
    if turn + 1 < world:
        k, v = Passed.apply(torch.stack((k, v)), group).unbind()
weights = torch.stack(sums).softmax(0)
return (weights * torch.stack(results)).sum(0)
# <<< parallelism.ring
# >>> parallelism.two
ranks = torch.arange(dist.get_world_size()).view(-1, tensor)
mesh = dist.device_mesh.DeviceMesh(device_type, ranks, mesh_dim_names=("shard", "tensor"))
parallelize_module(net, mesh["tensor"], plan)
for block in reversed(net.blocks):
    fully_shard(block, mesh=mesh["shard"])
fully_shard(net, mesh=mesh["shard"])
return mesh
# <<< parallelism.two
# >>> parallelism.choose
own = min(node, gpus)
one_node = gpus <= node
way = "no"
if rows * own >= gpus and 16 * parameters / gpus + row / own <= memory:
    way = "shard x tensor" if fast or one_node else "pipeline x tensor"
if rows >= gpus:
    if 16 * parameters / own + row <= memory:
        way = "shard in nodes"
    if (fast or one_node) and 16 * parameters / gpus + row <= memory:
        way = "shard"
    if 16 * parameters + row <= memory:
        way = "replicate"
return way
# <<< parallelism.choose

# wrong: the bias in each process's part of the sum · expect: plus the last bias once more(.|\n)*a bias must come once
# >>> parallelism.forward
x = Copied.apply(x, self.group)
x = F.gelu(F.linear(x, self.up, self.up_bias))
return Summed.apply(F.linear(x, self.down, self.bias), self.group)
# <<< parallelism.forward

# wrong: rows of both weights · expect: `down` has the shape \[3, 12\](.|\n)*half of the hidden numbers(.|\n)*parallelism.split
# >>> parallelism.split
rank, world = dist.get_rank(group), dist.get_world_size(group)
self.up, self.up_bias, self.down = (nn.Parameter(each.detach().chunk(world, 0)[rank].clone())
                                    for each in (up.weight, up.bias, down.weight))
self.bias = nn.Parameter(down.bias.detach().clone())
# <<< parallelism.split

# wrong: views of the layers it was given · expect: when its parameters change, so do the layers(.|\n)*copies(.|\n)*parallelism.split
# >>> parallelism.split
rank, world = dist.get_rank(group), dist.get_world_size(group)
self.up, self.up_bias = (nn.Parameter(each.detach().chunk(world)[rank]) for each in (up.weight, up.bias))
self.down, self.bias = nn.Parameter(down.weight.detach().chunk(world, 1)[rank]), down.bias
# <<< parallelism.split

# wrong: a share of the last bias in each process, which trains it twice · expect: `bias` has the right shape, but wrong values
# >>> parallelism.split
rank, world = dist.get_rank(group), dist.get_world_size(group)
self.up, self.up_bias = (nn.Parameter(each.detach().chunk(world)[rank].clone()) for each in (up.weight, up.bias))
self.down = nn.Parameter(down.weight.detach().chunk(world, 1)[rank].clone())
self.bias = nn.Parameter(down.bias.detach() / world)
# <<< parallelism.split
# >>> parallelism.forward
x = F.gelu(F.linear(Copied.apply(x, self.group), self.up, self.up_bias))
return Summed.apply(F.linear(x, self.down, self.bias), self.group)
# <<< parallelism.forward

# wrong: the gradient of x not summed · expect: the gradient of x differs(.|\n)*the sum of what all processes(.|\n)*parallelism.forward
# >>> parallelism.forward
x = F.gelu(F.linear(x, self.up, self.up_bias))
return Summed.apply(F.linear(x, self.down), self.group) + self.bias
# <<< parallelism.forward

# wrong: neighbours share the shards · expect: the mesh is \[\[0, 2\], \[1, 3\]\](.|\n)*neighbours share a layer
# >>> parallelism.two
ranks = torch.arange(dist.get_world_size()).view(tensor, -1).T
mesh = dist.device_mesh.DeviceMesh(device_type, ranks.contiguous(), mesh_dim_names=("shard", "tensor"))
parallelize_module(net, mesh["tensor"], plan)
for module in (*net.blocks, net):
    fully_shard(module, mesh=mesh["shard"])
return mesh
# <<< parallelism.two

# wrong: all keys gathered · expect: collectives that give it the keys and values of all(.|\n)*parallelism.ring
# >>> parallelism.ring
import torch.distributed.nn.functional as together

rank, world = dist.get_rank(group), dist.get_world_size(group)
k, v = (torch.cat(list(together.all_gather(each)), 2) for each in (k, v))
scores = q @ k.mT / math.sqrt(q.shape[-1])
if causal:
    rows = torch.arange(q.shape[2]) + rank * q.shape[2]
    scores = scores.masked_fill(torch.arange(k.shape[2]) > rows[:, None], -math.inf)
return scores.softmax(-1) @ v
# <<< parallelism.ring

# wrong: masked by places in the part · expect: causal=True(.|\n)*the result differs by(.|\n)*up to its own(.|\n)*parallelism.ring
# >>> parallelism.ring
rank, world = dist.get_rank(group), dist.get_world_size(group)
total, result, both = 0.0, torch.zeros_like(q), torch.stack((k, v))
for turn in range(world):
    scores = q @ both[0].mT / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -math.inf)
    weights = scores.exp()
    total, result = total + weights.sum(-1, keepdim=True), result + weights @ both[1]
    if turn < world - 1:
        both = Passed.apply(both, group)
return result / total
# <<< parallelism.ring

# wrong: rows are not counted · expect: fewer rows than GPUs(.|\n)*the first way in the docstring
# >>> parallelism.choose
state, near, own = 16 * parameters, fast or gpus <= node, min(node, gpus)
if state + row <= memory:
    return "replicate"
if near and state / gpus + row <= memory:
    return "shard"
if state / own + row <= memory:
    return "shard in nodes"
if state / gpus + row / own <= memory:
    return "shard x tensor" if near else "pipeline x tensor"
return "no"
# <<< parallelism.choose

# wrong: every network counts as fast · expect: the network is slow: the result is shard(.|\n)*fits: shard in nodes(.|\n)*parallelism.choose
# >>> parallelism.choose
state, near = 16 * parameters, min(node, gpus)
if rows >= gpus:
    for way, parts in (("replicate", 1), ("shard", gpus), ("shard in nodes", near)):
        if state / parts + row <= memory:
            return way
return "shard x tensor" if rows * near >= gpus and state / gpus + row / near <= memory else "no"
# <<< parallelism.choose

# wrong: masked parts skipped, so that their gradients do not go round · expect: causal=True(.|\n)*the gradient of k differs(.|\n)*each part has taken part
# >>> parallelism.ring
rank, world = dist.get_rank(group), dist.get_world_size(group)
results, sums, both = [], [], torch.stack((k, v))
for turn in range(world):
    source = (rank - turn) % world
    if source <= rank or not causal:
        scores = q @ both[0].mT / math.sqrt(q.shape[-1])
        if causal and turn == 0:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -math.inf)
        sums.append(scores.logsumexp(-1, keepdim=True))
        results.append(scores.softmax(-1) @ both[1])
    if turn < world - 1:
        both = Passed.apply(both, group)
return (torch.stack(sums).softmax(0) * torch.stack(results)).sum(0)
# <<< parallelism.ring
