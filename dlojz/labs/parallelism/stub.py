# >>> parallelism.fit
# TODO: which latency and which bandwidth come nearest to all times, each error as a fraction of its time?
todo("parallelism")
return 0.0, math.inf
# <<< parallelism.fit

# >>> parallelism.sums
# TODO: two functions that leave x as it is in one direction, and add it up over all processes in the other. Which is which?
class Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        todo("parallelism")
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad, None
# <<< parallelism.sums

# >>> parallelism.split
# TODO: what of each weight and bias does this process need? As it is, it has all of them.
todo("parallelism")
self.up, self.up_bias = (nn.Parameter(each.detach().clone()) for each in (up.weight, up.bias))
self.down, self.bias = (nn.Parameter(each.detach().clone()) for each in (down.weight, down.bias))
# <<< parallelism.split

# >>> parallelism.forward
# TODO: where does x go into Copied, what goes into Summed, and which bias must not be summed?
todo("parallelism")
return F.linear(F.gelu(F.linear(x, self.up, self.up_bias)), self.down, self.bias)
# <<< parallelism.forward

# >>> parallelism.one_f_one_b
# TODO: backward passes as early as they can. As it is, they come last.
todo("parallelism")
return gpipe(device, devices, microbatches)
# <<< parallelism.one_f_one_b

# >>> parallelism.simulate
# TODO: go through the devices; what can begin gets its times; until no action is left, or none can begin
todo("parallelism")
return {}
# <<< parallelism.simulate

# >>> parallelism.bubble
# TODO: how long is a device idle, by schedule, and which fraction of the step is that?
todo("parallelism")
return 0.0
# <<< parallelism.bubble

# >>> parallelism.ring
# TODO: turn by turn, with the keys and values that are here; then pass them on. As it is, each process sees its own part only.
todo("parallelism")
return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
# <<< parallelism.ring

# >>> parallelism.two
# TODO: a mesh with two dimensions, one way of splitting along each. As it is, each process has the whole model.
todo("parallelism")
return None
# <<< parallelism.two

# >>> parallelism.choose
# TODO: how many bytes does a GPU hold in each case, and does each have rows to work on?
todo("parallelism")
return "replicate"
# <<< parallelism.choose
