# expect: --pin-memory`: the loader of the training has pin_memory=False(.|\n)*pin_memory=True
# >>> dataloader
loading = {}
if args.num_workers:
    loading = {"num_workers": args.num_workers, "pin_memory": args.pin_memory, "persistent_workers": args.persistent_workers,
               "prefetch_factor": args.prefetch_factor}
# <<< dataloader
