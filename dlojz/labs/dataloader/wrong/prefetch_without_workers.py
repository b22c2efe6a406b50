# expect: prefetch_factor option could only be specified(.|\n)*the fence
# >>> dataloader
loading = {"num_workers": args.num_workers, "prefetch_factor": args.prefetch_factor or 2, "pin_memory": args.pin_memory,
           "persistent_workers": args.persistent_workers}
# <<< dataloader
