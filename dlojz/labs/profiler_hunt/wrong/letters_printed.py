# expect: slow_letters.py: 12 steps of 8 letters ask for 12 values of tensors.*`print\(confusion.sum\(\)\)`
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    confusion.index_put_((labels, outputs.argmax(1)), torch.ones_like(labels), accumulate=True)
    print(confusion.sum())
# <<< profiler_hunt.letters
