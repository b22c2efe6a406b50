# right: bins left open
# >>> dataloader
loading = {name: value for name, value in vars(args).items() if value
           and name in ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers")}
# <<< dataloader

# right: by key
# >>> dataloader
names = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers")
loading = {name: getattr(args, name) for name in names}
# <<< dataloader

# right: only with workers
# >>> dataloader
loading = dict(num_workers=args.num_workers, pin_memory=args.pin_memory and device.type == "cuda")
if args.num_workers:
    loading.update(persistent_workers=args.persistent_workers, prefetch_factor=args.prefetch_factor or 2)
# <<< dataloader

# wrong: not kept · expect: persistent_workers=False\.\nExpected.*persistent_workers=True(.|\n)*the fence dataloader,
# >>> dataloader
loading = {"num_workers": args.num_workers, "prefetch_factor": args.prefetch_factor, "pin_memory": args.pin_memory}
# <<< dataloader

# wrong: pinned with workers only · expect: --pin-memory`.*the loader of the training has pin_memory=False(.|\n)*pin_memory=True(.|\n)*the fence dataloader,
# >>> dataloader
loading = {}
if args.num_workers:
    loading = {"num_workers": args.num_workers, "pin_memory": args.pin_memory, "persistent_workers": args.persistent_workers,
               "prefetch_factor": args.prefetch_factor}
# <<< dataloader

# wrong: workers divided by processes · expect: with 2 processes.*has num_workers=0(.|\n)*num_workers=1(.|\n)*the fence dataloader,
# >>> dataloader
workers = args.num_workers // procs.world_size  # as the ImageNet example of PyTorch does
loading = {"num_workers": workers, "pin_memory": args.pin_memory, "persistent_workers": args.persistent_workers and workers > 0,
           "prefetch_factor": args.prefetch_factor if workers else None}
# <<< dataloader

# wrong: prefetch without workers · expect: `train.py --device cuda`, .*has prefetch_factor=2\.\nExpected.*=None(.|\n)*the fence dataloader,
# >>> dataloader
loading = {"num_workers": args.num_workers, "prefetch_factor": args.prefetch_factor or 2, "pin_memory": args.pin_memory,
           "persistent_workers": args.persistent_workers}
# <<< dataloader

# wrong: as they come · expect: has in_order=False(.|\n)*whatever the number of workers(.|\n)*the fence dataloader,
# >>> dataloader
loading = {"num_workers": args.num_workers, "prefetch_factor": args.prefetch_factor, "pin_memory": args.pin_memory,
           "persistent_workers": args.persistent_workers, "in_order": False}
# <<< dataloader
