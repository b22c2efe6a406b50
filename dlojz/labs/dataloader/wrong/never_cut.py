# expect: `buckets` gives int values one by one(.|\n)*a list of batches(.|\n)*dataloader.buckets
# >>> dataloader.buckets
batches = sorted(order, key=lambda index: lengths[index])
# <<< dataloader.buckets
