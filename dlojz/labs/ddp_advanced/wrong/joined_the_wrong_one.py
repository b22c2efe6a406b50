# expect: AttributeError.*join_hook.*the fence ddp_advanced.uneven
# >>> ddp_advanced.uneven
together = Join([net]) if procs.world_size > 1 else nullcontext()
# <<< ddp_advanced.uneven
