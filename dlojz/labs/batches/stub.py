# >>> batches.seed
pass  # TODO: give the data set of this worker a generator of its own.
# <<< batches.seed

# >>> batches.buckets
# TODO: these sequences stand together by chance, and each batch is as wide as its longest. Put together what is alike.
batches = [order[begin : begin + batch_size] for begin in range(0, len(order), batch_size)]
# <<< batches.buckets
