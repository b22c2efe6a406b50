# expect: slow_letters.py: the table has counted 0 letters out of 96
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    confusion = confusion.index_put((labels, outputs.argmax(1)), torch.ones_like(labels), accumulate=True)
# <<< profiler_hunt.letters
