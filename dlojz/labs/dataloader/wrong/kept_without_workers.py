# expect: persistent_workers option needs num_workers > 0(.|\n)*the fence
# >>> dataloader
loading = {"num_workers": args.num_workers, "prefetch_factor": args.prefetch_factor, "pin_memory": args.pin_memory,
           "persistent_workers": True}
# <<< dataloader
