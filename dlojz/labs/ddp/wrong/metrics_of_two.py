# expect: with three processes, rank \d has .* after step \d(.|\n)*ddp.metrics
# >>> ddp.metrics
if procs.world_size > 1 and reduce_now and procs.rank < 2:
    theirs = torch.empty_like(sums)
    for sender in range(2):
        if procs.rank == sender:
            dist.send(sums, 1 - sender)
        else:
            dist.recv(theirs, sender)
    sums += theirs
# <<< ddp.metrics
