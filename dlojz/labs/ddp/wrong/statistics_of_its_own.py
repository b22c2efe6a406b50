# expect: each validates with the running means and variances of its own batches(.|\n)*ddp.buffers
# >>> ddp.buffers
pass
# <<< ddp.buffers
