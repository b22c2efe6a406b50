# expect: has num_workers=2\.\nExpected.*num_workers=0
# >>> dataloader
loading = {"num_workers": 2, "prefetch_factor": 3, "pin_memory": args.pin_memory, "persistent_workers": True}
# <<< dataloader
