# expect: size depends on values \(unique\)
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    pairs, times = torch.unique(labels * LETTERS + outputs.argmax(1), return_counts=True)
    confusion.view(-1)[pairs] += times
# <<< profiler_hunt.letters
