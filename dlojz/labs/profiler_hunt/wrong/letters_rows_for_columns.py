# expect: slow_letters.py: the table has other numbers in it
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    confusion.index_put_((outputs.argmax(1), labels), torch.ones_like(labels), accumulate=True)
# <<< profiler_hunt.letters
