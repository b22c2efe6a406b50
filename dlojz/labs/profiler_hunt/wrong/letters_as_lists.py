# expect: slow_letters.py: 12 steps of 8 letters ask for 24 values
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    for label, guess in zip(labels.tolist(), outputs.argmax(1).tolist()):
        confusion[label, guess] += 1
# <<< profiler_hunt.letters
