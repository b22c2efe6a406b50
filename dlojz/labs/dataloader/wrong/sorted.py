# expect: come in the order of their length
# >>> dataloader.buckets
order = sorted(order, key=lambda index: lengths[index])
batches = [order[begin : begin + batch_size] for begin in range(0, len(order), batch_size)]
# <<< dataloader.buckets
