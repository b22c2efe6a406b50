# expect: size depends on values \(coalesce\)
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    where = torch.stack([labels, outputs.argmax(1)])
    confusion += torch.sparse_coo_tensor(where, torch.ones_like(labels), confusion.shape).coalesce().to_dense()
# <<< profiler_hunt.letters
