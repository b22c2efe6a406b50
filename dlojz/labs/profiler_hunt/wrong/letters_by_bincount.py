# expect: size depends on values \(bincount\).*line \d+ of hunt/slow_letters.py
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    found = torch.bincount(labels * LETTERS + outputs.argmax(1), minlength=LETTERS * LETTERS)
    confusion += found.view(LETTERS, LETTERS)
# <<< profiler_hunt.letters
