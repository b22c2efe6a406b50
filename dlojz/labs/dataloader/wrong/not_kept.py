# expect: persistent_workers=False\.\nExpected.*persistent_workers=True
# >>> dataloader
loading = {"num_workers": args.num_workers, "prefetch_factor": args.prefetch_factor, "pin_memory": args.pin_memory}
# <<< dataloader
