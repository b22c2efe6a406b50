# expect: are on cpu.*profiler_hunt.letters
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    ones = torch.ones(len(labels), dtype=torch.int64)
    confusion.index_put_((labels, outputs.argmax(1)), ones, accumulate=True)
# <<< profiler_hunt.letters
