# right: by other ways
# >>> memory.recomputed
if not keep_products:
    return checkpoint(block, *inputs, use_reentrant=False, preserve_rng_state=True)
from torch.utils.checkpoint import CheckpointPolicy

def policy(context, operator, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if operator in PRODUCTS else CheckpointPolicy.PREFER_RECOMPUTE

return checkpoint(block, *inputs, use_reentrant=False, context_fn=lambda: create_selective_checkpoint_contexts(policy))
# <<< memory.recomputed
# >>> memory.loss
rows, wanted, total = x.reshape(-1, x.shape[-1]), targets.reshape(-1), 0.0
size = -(-len(rows) // chunks)
for first in range(0, len(rows), size):
    part = rows[first : first + size], wanted[first : first + size]
    total = total + checkpoint(lambda x, y: -head(x).float().log_softmax(-1).gather(1, y[:, None]).sum(), *part, use_reentrant=False)
return total / len(rows)
# <<< memory.loss
# >>> memory.lora
self.linear, self.scale = linear, alpha / rank
for weight in linear.parameters():
    weight.requires_grad = False
self.down = nn.Linear(linear.in_features, rank, bias=False).to(linear.weight)
self.up = nn.Linear(rank, linear.out_features, bias=False).to(linear.weight)
self.up.weight.data.zero_()
# <<< memory.lora
# >>> memory.lora_forward
return self.linear(x) + F.linear(F.linear(x, self.down.weight), self.up.weight * self.scale)
# <<< memory.lora_forward
# >>> memory.step
made = []
for parameter in parameters:
    optimizer = make([parameter])
    made.append(optimizer)

    def arrived(parameter, optimizer=optimizer):
        optimizer.step()
        parameter.grad = None

    parameter.register_post_accumulate_grad_hook(arrived)
return made
# <<< memory.step

# right: the loss with its gradients made in the forward pass, where a chunk of logits is there anyway
# >>> memory.loss
class Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, weight, wanted):
        total, of_rows, of_weight = rows.new_zeros((), dtype=torch.float32), torch.empty_like(rows), torch.zeros_like(weight)
        for part, right, into in zip(rows.chunk(chunks), wanted.chunk(chunks), of_rows.chunk(chunks)):
            share = F.linear(part, weight).float().log_softmax(-1)
            total -= share.gather(1, right[:, None]).sum()
            share = share.exp_().scatter_add_(1, right[:, None], -torch.ones_like(right[:, None], dtype=torch.float32))
            share = (share / len(rows)).to(weight.dtype)
            into.copy_(share @ weight)
            of_weight += share.T @ part
        ctx.save_for_backward(of_rows, of_weight)
        return total / len(rows)

    @staticmethod
    def backward(ctx, grad):
        of_rows, of_weight = ctx.saved_tensors
        return of_rows * grad, of_weight * grad, None

return Loss.apply(x.flatten(0, 1), head.weight, targets.flatten())
# <<< memory.loss

# wrong: nothing is recomputed where products are kept · expect: products kept: what is kept of the inside is everything(.|\n)*one product
# >>> memory.recomputed
if keep_products:
    return block(*inputs)
return checkpoint(block, *inputs, use_reentrant=False)
# <<< memory.recomputed

# wrong: products not kept · expect: products kept.*(one product|a product)
# >>> memory.recomputed
return checkpoint(block, *inputs, use_reentrant=False)
# <<< memory.recomputed

# wrong: another dropout the second time · expect: all recomputed.*the gradient
# >>> memory.recomputed
context = functools.partial(create_selective_checkpoint_contexts, PRODUCTS) if keep_products else noop_context_fn
return checkpoint(block, *inputs, use_reentrant=False, context_fn=context, preserve_rng_state=False)
# <<< memory.recomputed

# wrong: the reentrant one · expect: all recomputed, of an input that needs no gradient
# >>> memory.recomputed
if keep_products:
    context = functools.partial(create_selective_checkpoint_contexts, PRODUCTS)
    return checkpoint(block, *inputs, use_reentrant=False, context_fn=context)
return checkpoint(block, *inputs, use_reentrant=True)
# <<< memory.recomputed

# wrong: a mean of means · expect: 10 tokens in 4 chunks.*the mean over all tokens.*the fence memory.loss
# >>> memory.loss
parts = list(zip(x.flatten(0, 1).chunk(chunks), targets.flatten().chunk(chunks)))
return sum(checkpoint(lambda a, b: F.cross_entropy(head(a).float(), b), *part, use_reentrant=False) for part in parts) / len(parts)
# <<< memory.loss

# wrong: gradients that forget what the loss is multiplied by · expect: the gradient of x(.|\n)*half of one whole loss
# >>> memory.loss
class Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, weight, wanted):
        with torch.enable_grad():
            leaves, total = [one.detach().requires_grad_() for one in (rows, weight)], 0.0
            grads = [torch.zeros_like(one) for one in leaves]
            for part in torch.arange(len(rows)).chunk(chunks):
                loss = F.cross_entropy(F.linear(leaves[0][part], leaves[1]).float(), wanted[part], reduction="sum") / len(rows)
                grads = [grad + new for grad, new in zip(grads, torch.autograd.grad(loss, leaves))]
                total = total + loss.detach()
        ctx.save_for_backward(*grads)
        return total

    @staticmethod
    def backward(ctx, grad):
        return *ctx.saved_tensors, None

return Loss.apply(x.flatten(0, 1), head.weight, targets.flatten())
# <<< memory.loss

# wrong: all logits first · expect: 256 tokens in 8 chunks.*is more than a few copies
# >>> memory.loss
parts = zip(head(x).flatten(0, 1).chunk(chunks), targets.flatten().chunk(chunks))
return sum(checkpoint(lambda a, b: F.cross_entropy(a.float(), b, reduction="sum"), *part, use_reentrant=False)
           for part in parts) / targets.numel()
# <<< memory.loss

# wrong: in half precision · expect: a head in bfloat16.*(float32|the loss)
# >>> memory.loss
parts = zip(x.flatten(0, 1).chunk(chunks), targets.flatten().chunk(chunks))
return sum(checkpoint(lambda a, b: F.cross_entropy(head(a), b, reduction="sum"), *part, use_reentrant=False)
           for part in parts) / targets.numel()
# <<< memory.loss

# wrong: both matrices begin at 0 · expect: `LoRA`.*what has a gradient that is not 0.*nothing.*the fence memory.lora
# >>> memory.lora
self.linear, self.scale = linear.requires_grad_(False), alpha / rank
self.down = nn.Linear(linear.in_features, rank, bias=False).to(linear.weight)
self.up = nn.Linear(rank, linear.out_features, bias=False).to(linear.weight)
nn.init.zeros_(self.down.weight)
nn.init.zeros_(self.up.weight)
# <<< memory.lora

# wrong: nothing begins at 0 · expect: the output at first.*is not the layer's
# >>> memory.lora
self.linear, self.scale = linear.requires_grad_(False), alpha / rank
self.down = nn.Linear(linear.in_features, rank, bias=False).to(linear.weight)
self.up = nn.Linear(rank, linear.out_features, bias=False).to(linear.weight)
# <<< memory.lora

# wrong: the layer learns on · expect: what learns.*linear.weight
# >>> memory.lora
self.linear, self.scale = linear, alpha / rank
self.down = nn.Linear(linear.in_features, rank, bias=False).to(linear.weight)
self.up = nn.Linear(rank, linear.out_features, bias=False).to(linear.weight)
nn.init.zeros_(self.up.weight)
# <<< memory.lora

# wrong: not scaled · expect: the output with other matrices.*alpha / rank
# >>> memory.lora_forward
return self.linear(x) + self.up(self.down(x))
# <<< memory.lora_forward

# wrong: no gradient goes through the frozen layer · expect: the gradient of the input.*through the frozen layer as well
# >>> memory.lora_forward
with torch.no_grad():
    frozen = self.linear(x)
return frozen + self.scale * self.up(self.down(x))
# <<< memory.lora_forward

# wrong: gradients stay · expect: `step_in_backward`.*(gradients at one time|gradients that are left).*the fence memory.step
# >>> memory.step
optimizers = {parameter: make([parameter]) for parameter in parameters}
for parameter in optimizers:
    parameter.register_post_accumulate_grad_hook(lambda parameter: optimizers[parameter].step())
return list(optimizers.values())
# <<< memory.step

# wrong: the last parameter's optimizer for all · expect: `step_in_backward`.*two layers
# >>> memory.step
made = []
for parameter in parameters:
    optimizer = make([parameter])
    made.append(optimizer)

    def update(parameter):
        optimizer.step()
        optimizer.zero_grad()

    parameter.register_post_accumulate_grad_hook(update)
return made
# <<< memory.step

# wrong: before the gradient has arrived · expect: `step_in_backward`.*two layers
# >>> memory.step
optimizers = {parameter: make([parameter]) for parameter in parameters}

def update(parameter, gradient):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()
    return gradient

for parameter in optimizers:
    parameter.register_hook(functools.partial(update, parameter))
return list(optimizers.values())
# <<< memory.step

# wrong: of the inputs only the first · expect: `recomputed`, all recomputed, of a block with two inputs.*the output
# >>> memory.recomputed
context = functools.partial(create_selective_checkpoint_contexts, PRODUCTS) if keep_products else noop_context_fn
return checkpoint(block, inputs[0], use_reentrant=False, context_fn=context)
# <<< memory.recomputed

# wrong: reentrant chunks · expect: 10 tokens in 4 chunks, of an x that needs no gradient
# >>> memory.loss
def of(part, wanted):
    return F.cross_entropy(head(part).float(), wanted, reduction="sum")

parts = zip(x.flatten(0, 1).chunk(chunks), targets.flatten().chunk(chunks))
return sum(checkpoint(of, part, wanted, use_reentrant=True) for part, wanted in parts) / targets.numel()
# <<< memory.loss

# wrong: the matrices stay on the CPU · expect: another device.*the devices of the weights are cpu, meta
# >>> memory.lora
self.linear, self.scale = linear.requires_grad_(False), alpha / rank
self.down = nn.Linear(linear.in_features, rank, bias=False, dtype=linear.weight.dtype)
self.up = nn.Linear(rank, linear.out_features, bias=False, dtype=linear.weight.dtype)
nn.init.zeros_(self.up.weight)
# <<< memory.lora

# wrong: all rows begin alike · expect: the rank of down at first is 1(.|\n)*rows that begin alike learn alike
# >>> memory.lora
self.linear, self.scale = linear.requires_grad_(False), alpha / rank
self.down = nn.Linear(linear.in_features, rank, bias=False).to(linear.weight)
self.up = nn.Linear(rank, linear.out_features, bias=False).to(linear.weight)
nn.init.ones_(self.down.weight)
nn.init.zeros_(self.up.weight)
# <<< memory.lora

# wrong: without its matrices in eval mode · expect: the output in eval mode(.|\n)*that in train mode
# >>> memory.lora_forward
if not self.training:
    return self.linear(x)
return self.linear(x) + self.scale * self.up(self.down(x))
# <<< memory.lora_forward
