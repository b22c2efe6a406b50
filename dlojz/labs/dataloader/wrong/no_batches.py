# expect: Seen: `buckets` of `loading.py` stops with TypeError.*Where to look: the fence dataloader.buckets, line
# >>> dataloader.buckets
batches = None
# <<< dataloader.buckets
