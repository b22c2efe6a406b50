# >>> dataloader
# TODO: what DataLoader is told of --num-workers, --prefetch-factor, --pin-memory, --persistent-workers.
loading = {}
if args.num_workers or args.pin_memory:
    todo("dataloader")
# <<< dataloader
