# expect: prefetch_factor=2\.\nExpected.*prefetch_factor=3
# >>> dataloader
loading = {"num_workers": args.num_workers, "pin_memory": args.pin_memory, "persistent_workers": args.persistent_workers}
# <<< dataloader
