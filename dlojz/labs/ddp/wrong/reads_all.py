# expect: both read the same 16 images(.|\n)*ddp.sampler
# >>> ddp.sampler
pass
# <<< ddp.sampler
