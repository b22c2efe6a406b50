# expect: rank . stops with an error that Join raises.*the fence ddp_advanced.uneven
# >>> ddp_advanced.uneven
together = Join([model], throw_on_early_termination=True) if procs.world_size > 1 else nullcontext()
# <<< ddp_advanced.uneven
