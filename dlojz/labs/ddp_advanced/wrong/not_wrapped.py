# expect: step with different gradients.*the fence ddp_advanced.unused
# >>> ddp_advanced.unused
model = net
# <<< ddp_advanced.unused
# >>> ddp_advanced.uneven
together = nullcontext()
# <<< ddp_advanced.uneven
