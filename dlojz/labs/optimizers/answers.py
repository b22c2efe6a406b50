# right: otherwise
# >>> optimizers.groups
weights, others = [], []
for module in net.modules():
    pass
for name, parameter in net.named_parameters():
    if parameter.requires_grad:
        (others if parameter.dim() < 2 else weights).append(parameter)
return [dict(params=weights, weight_decay=weight_decay), dict(params=others, weight_decay=0)]
# <<< optimizers.groups
# >>> optimizers.schedule
factor = min(1.0, (update + 1) / warmup) if warmup else 1.0
if factor < 1 or update < warmup:
    return factor
if name == "cosine":
    through = (update - warmup) / max(1, updates - warmup)
    return math.cos(math.pi / 2 * through) ** 2
cooling = max(1, round(COOLDOWN * updates))
if name == "wsd" and update > updates - cooling:
    return max(0.0, 1 - (update - (updates - cooling)) / cooling)
return 1.0
# <<< optimizers.schedule
# >>> optimizers.lamb
update = adam(gradient, state, betas, eps).add(w, alpha=weight_decay)
lengths = torch.stack([w.norm(), update.norm()])
ratio = torch.where(lengths.prod() > 0, lengths[0] / lengths[1], torch.ones_like(lengths[0])) if weight_decay > 0 else 1.0
w.add_(update * ratio, alpha=-lr)
# <<< optimizers.lamb
# >>> optimizers.make
decays = args.decay == "weights"
groups = optimizers.parameter_groups(net, args.wd) if decays else [dict(params=net.parameters(), weight_decay=args.wd)]
optimizer = optimizers.make_optimizer(args.optimizer, groups, args.lr, args.mom, args.fused)
count = 0
for length in epoch_lengths:
    count += -(-length // args.accumulate)
scheduler = optimizers.make_schedule(args.schedule, optimizer, args.lr, count, warmup=args.warmup)
# <<< optimizers.make
# >>> optimizers.step
skipped = scaler.is_enabled() and scaler.get_scale() < scale
if not skipped:
    scheduler.step()
# <<< optimizers.step

# right: the finder gives back what it took
# >>> optimizers.finder
weights = copy.deepcopy(net.state_dict())
gradients = [parameter.grad for parameter in net.parameters()]
kept_state, training = copy.deepcopy(optimizer.state_dict()), net.training
net.train()
found, least, rate = [], math.inf, lowest
factor = (highest / lowest) ** (1 / max(1, steps - 1))
for batch in batches:
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad()
    loss = loss_of(net, batch)
    loss.backward()
    optimizer.step()
    value = float(loss.detach())
    found.append((rate, value))
    least, rate = min(least, value), rate * factor
    if len(found) == steps or not math.isfinite(value) or value > 4 * least:
        break
net.load_state_dict(weights)
optimizer.load_state_dict(kept_state)
for parameter, gradient in zip(net.parameters(), gradients):
    parameter.grad = gradient
net.train(training)
return found
# <<< optimizers.finder

# right: the finder makes a copy of its own
# >>> optimizers.finder
both = copy.deepcopy({"net": net, "optimizer": optimizer})
trial, trained = both["net"].train(), both["optimizer"]
found = []
for rate in torch.logspace(math.log10(lowest), math.log10(highest), steps, dtype=torch.float64).tolist():
    batch = next(iter(batches), None)
    if batch is None:
        break
    loss = loss_of(trial, batch)
    trained.zero_grad()
    loss.backward()
    for group in trained.param_groups:
        group["lr"] = rate
    trained.step()
    found.append((rate, loss.item()))
    if not loss.item() <= 4 * min(each for _, each in found):
        break
return found
# <<< optimizers.finder

# wrong: biases by name · expect: batch norm and a linear layer: the first group is .*1.weight.*two dimensions or more(.|\n)*optimizers.groups
# >>> optimizers.groups
named = [(name, each) for name, each in net.named_parameters() if each.requires_grad]
return [{"params": [each for name, each in named if not name.endswith("bias")], "weight_decay": weight_decay},
        {"params": [each for name, each in named if name.endswith("bias")], "weight_decay": 0.0}]
# <<< optimizers.groups

# wrong: frozen ones too · expect: a frozen layer: parameters of no use are frozen.weight, frozen.bias.*requires no gradient
# >>> optimizers.groups
return [{"params": [each for each in net.parameters() if each.ndim > 1], "weight_decay": weight_decay},
        {"params": [each for each in net.parameters() if each.ndim <= 1], "weight_decay": 0.0}]
# <<< optimizers.groups

# wrong: scalars forgotten · expect: a frozen layer: parameters in no group are gain
# >>> optimizers.groups
parameters = [each for each in net.parameters() if each.requires_grad]
return [{"params": [each for each in parameters if each.ndim > 1], "weight_decay": weight_decay},
        {"params": [each for each in parameters if each.ndim == 1], "weight_decay": 0.0}]
# <<< optimizers.groups

# wrong: warm-up from nothing · expect: constant, 7 updates with a warm-up of 4 .*the result is \[0, 0.25.*\[0.25, 0.5, 0.75, 1(.|\n)*optimizers.schedule
# >>> optimizers.schedule
if update < warmup:
    return update / warmup
if name == "cosine":
    return 0.5 * (1 + math.cos(math.pi * (update - warmup) / max(1, updates - warmup)))
if name == "wsd":
    return min(1.0, max(0, updates - update) / max(1, round(COOLDOWN * updates)))
return 1.0
# <<< optimizers.schedule

# wrong: trust on biases · expect: one update of a bias, no decay: .*Without decay: Adam's step alone(.|\n)*optimizers.lamb
# >>> optimizers.lamb
step = adam(gradient, state, betas, eps) + weight_decay * w
of_w, of_step = w.norm(), step.norm()
w.sub_(lr * step * torch.where((of_w > 0) & (of_step > 0), of_w / of_step, 1.0))
# <<< optimizers.lamb

# wrong: decay outside of the ratio · expect: one update of a matrix of length 1, decay 0.1: .*Adam's step \+ weight_decay x w
# >>> optimizers.lamb
step = adam(gradient, state, betas, eps)
if weight_decay:
    of_w, of_step = w.norm(), step.norm()
    step = step * torch.where((of_w > 0) & (of_step > 0), of_w / of_step, 1.0) + weight_decay * w
w.sub_(lr * step)
# <<< optimizers.lamb

# wrong: an if on the device · expect: a matrix on the GPU, decay 0.1: the host waits for the GPU(.|\n)*optimizers.lamb
# >>> optimizers.lamb
step = adam(gradient, state, betas, eps)
if weight_decay:
    step = step + weight_decay * w
    if w.norm() > 0 and step.norm() > 0:
        step = step * w.norm() / step.norm()
w.sub_(lr * step)
# <<< optimizers.lamb

# wrong: the finder trains on · expect: net.weights are changed.*the sweep is no training(.|\n)*optimizers.finder
# >>> optimizers.finder
net.train()
found = []
for number, batch in zip(range(steps), batches):
    rate = lowest * (highest / lowest) ** (number / max(1, steps - 1))
    for group in optimizer.param_groups:
        group["lr"] = rate
    loss = loss_of(net, batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    found.append((rate, loss.item()))
    if not found[-1][1] <= 4 * min(loss for _, loss in found):
        break
return found
# <<< optimizers.finder

# wrong: the last rate stays · expect: optimizer.rates are \[.*begins with the last rate that was tried
# >>> optimizers.finder
weights, buffers = copy.deepcopy(net.state_dict()), copy.deepcopy(optimizer.state_dict()["state"])
gradients, training = [parameter.grad for parameter in net.parameters()], net.training
net.train()
found = []
for number, batch in zip(range(steps), batches):
    rate = lowest * (highest / lowest) ** (number / max(1, steps - 1))
    for group in optimizer.param_groups:
        group["lr"] = rate
    loss = loss_of(net, batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    found.append((rate, loss.item()))
    if not found[-1][1] <= 4 * min(loss for _, loss in found):
        break
net.load_state_dict(weights)
optimizer.load_state_dict(optimizer.state_dict() | {"state": buffers})
for parameter, gradient in zip(net.parameters(), gradients):
    parameter.grad = gradient
net.train(training)
return found
# <<< optimizers.finder

# wrong: two copies that know nothing of each other · expect: 4 rates from 0.001 to 1: losses are .*with the weights after those before
# >>> optimizers.finder
net, optimizer = copy.deepcopy(net), copy.deepcopy(optimizer)
net.train()
found = []
for number, batch in zip(range(steps), batches):
    rate = lowest * (highest / lowest) ** (number / max(1, steps - 1))
    for group in optimizer.param_groups:
        group["lr"] = rate
    loss = loss_of(net, batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    found.append((rate, loss.item()))
    if not found[-1][1] <= 4 * min(loss for _, loss in found):
        break
return found
# <<< optimizers.finder

# wrong: sized with floor · expect: --accumulate 3 .*learning rate.*over as many updates as there are(.|\n)*optimizers.make
# >>> optimizers.make
groups = [{"params": list(net.parameters()), "weight_decay": args.wd}]
if args.decay == "weights":
    groups = optimizers.parameter_groups(net, args.wd)
optimizer = optimizers.make_optimizer(args.optimizer, groups, args.lr, args.mom, args.fused)
scheduler = optimizers.make_schedule(args.schedule, optimizer, args.lr, max(1, total_steps // args.accumulate), args.warmup)
# <<< optimizers.make

# wrong: always groups · expect: --schedule constant.*parameters in another order.*all parameters in one without(.|\n)*optimizers.make
# >>> optimizers.make
optimizer = optimizers.make_optimizer(args.optimizer, optimizers.parameter_groups(net, args.wd), args.lr, args.mom, args.fused)
updates = options.updates(args, epoch_lengths)
scheduler = optimizers.make_schedule(args.schedule, optimizer, args.lr, updates, args.warmup)
# <<< optimizers.make

# wrong: made before the model has moved · expect: --device cuda.*the weights are on .*cpu.* when the optimizer is made
# >>> optimizers.make
net.cpu()
groups = optimizers.parameter_groups(net, args.wd) if args.decay == "weights" else \
    [{"params": list(net.parameters()), "weight_decay": args.wd}]
optimizer = optimizers.make_optimizer(args.optimizer, groups, args.lr, args.mom, args.fused)
net.to(device)
updates = options.updates(args, epoch_lengths)
scheduler = optimizers.make_schedule(args.schedule, optimizer, args.lr, updates, args.warmup)
# <<< optimizers.make

# wrong: stepped though skipped · expect: --amp fp16.*the schedule takes a step, and no update was made(.|\n)*optimizers.step
# >>> optimizers.step
scheduler.step()
# <<< optimizers.step

# wrong: once an epoch · expect: the schedule takes no step after this update(.|\n)*optimizers.step
# >>> optimizers.step
if last:
    scheduler.step()
# <<< optimizers.step

# wrong: gradients gone before the step · expect: the optimizer's parameters have no gradient when it steps
# >>> amp.update
optimizer.zero_grad()
scaler.step(optimizer)
scaler.update()
# <<< amp.update
