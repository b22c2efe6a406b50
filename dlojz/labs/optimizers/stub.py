# >>> optimizers.groups
# TODO: two groups. As it is, everything decays.
todo("optimizers")
return [{"params": list(net.parameters()), "weight_decay": weight_decay}]
# <<< optimizers.groups

# >>> optimizers.schedule
# TODO: the fraction of this update. Count on paper for 10 updates, 4 of them warm-up: which is the first with 1, and the last?
if name != "constant" or warmup:
    todo("optimizers")
return 1.0
# <<< optimizers.schedule

# >>> optimizers.finder
# TODO: the sweep, so that nothing of it is left in net and optimizer. As it is, there is none.
todo("optimizers")
return []
# <<< optimizers.finder

# >>> optimizers.lamb
# TODO: Adam's step is here; decay and trust ratio are missing.
todo("optimizers")
w.sub_(lr * adam(gradient, state, betas, eps))
# <<< optimizers.lamb

# >>> optimizers.make
# TODO: with --decay weights, the groups of optimizers.py; and the schedule that the switches name, with its warm-up. How often
# will it step? --accumulate makes an update of several batches, and the last group of an epoch may be smaller.
groups = [{"params": list(net.parameters()), "weight_decay": args.wd}]
optimizer = optimizers.make_optimizer(args.optimizer, groups, args.lr, args.mom, args.fused)
scheduler = optimizers.make_schedule("constant", optimizer, args.lr, total_steps)
if args.decay != "all" or args.schedule != "constant" or args.warmup:
    todo("optimizers")
# <<< optimizers.make

# >>> optimizers.step
# TODO: the scaler of --amp fp16 skips an update whose gradients are infinite, and lowers its scale, which was `scale` before.
scheduler.step()
if scaler.is_enabled() and (args.schedule != "constant" or args.warmup):
    todo("optimizers")
# <<< optimizers.step
