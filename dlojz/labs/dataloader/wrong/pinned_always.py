# expect: loader of the training has pin_memory=True
# >>> dataloader
loading = {"num_workers": args.num_workers, "prefetch_factor": args.prefetch_factor, "pin_memory": True,
           "persistent_workers": args.persistent_workers}
# <<< dataloader
