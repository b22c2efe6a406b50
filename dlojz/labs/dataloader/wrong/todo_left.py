# expect: `todo\("dataloader"\)` is still called.*says that dataloader is not written yet.*Where to look: line \d+ .*`todo\("dataloader"\)`
# >>> dataloader
loading = {"num_workers": args.num_workers, "prefetch_factor": args.prefetch_factor, "pin_memory": args.pin_memory,
           "persistent_workers": args.persistent_workers}
if args.num_workers or args.pin_memory:
    todo("dataloader")
# <<< dataloader
