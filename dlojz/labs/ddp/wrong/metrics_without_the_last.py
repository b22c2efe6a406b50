# expect: rank 0 has .* as the loss after step 2 \(its own alone\)(.|\n)*ddp.metrics
# >>> ddp.metrics
if procs.world_size > 1 and step % args.metric_every == 0:
    dist.all_reduce(sums)
# <<< ddp.metrics
