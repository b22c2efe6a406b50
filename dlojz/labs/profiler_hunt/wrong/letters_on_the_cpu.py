# expect: on a GPU each step copies 3 tensors to the CPU.*line \d+ of hunt/slow_letters.py, `table.index_put_
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    table = torch.zeros(LETTERS, LETTERS, dtype=torch.int64)
    table.index_put_((labels.cpu(), outputs.argmax(1).cpu()), torch.ones_like(labels.cpu()), accumulate=True)
    confusion += table.to(confusion.device)
# <<< profiler_hunt.letters
