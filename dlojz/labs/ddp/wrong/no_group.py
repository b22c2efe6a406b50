# expect: rank 0 joins no process group(.|\n)*the fence ddp.init
# >>> ddp.init
pass
# <<< ddp.init
