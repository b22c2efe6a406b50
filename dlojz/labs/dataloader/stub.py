# >>> dataloader
# TODO: what DataLoader is told of --num-workers, --prefetch-factor, --pin-memory, --persistent-workers.
loading = {}
if args.num_workers or args.pin_memory:
    todo("dataloader")
# <<< dataloader

# >>> dataloader.seed
pass  # TODO: give the data set of this worker a generator of its own.
# <<< dataloader.seed

# >>> dataloader.buckets
# TODO: these sequences stand together by chance, and each batch is as wide as its longest. Put together what is alike.
batches = [order[begin : begin + batch_size] for begin in range(0, len(order), batch_size)]
# <<< dataloader.buckets
