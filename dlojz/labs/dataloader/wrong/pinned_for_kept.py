# expect: --num-workers 1 --pin-memory`: the loader of the training has pin_memory=False
# >>> dataloader
loading = {"num_workers": args.num_workers, "prefetch_factor": args.prefetch_factor, "pin_memory": args.persistent_workers,
           "persistent_workers": args.pin_memory and args.num_workers > 0}
# <<< dataloader
