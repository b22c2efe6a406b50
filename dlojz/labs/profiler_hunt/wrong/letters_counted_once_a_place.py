# expect: slow_letters.py: the table has counted \d+ letters out of 96
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    confusion[labels, outputs.argmax(1)] += 1
# <<< profiler_hunt.letters
