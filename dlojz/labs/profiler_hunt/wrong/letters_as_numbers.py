# expect: slow_letters.py: 12 steps of 8 letters ask for 192 values.*line \d+ of hunt/slow_letters.py
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    guesses = outputs.argmax(1)
    for i in range(len(labels)):
        confusion[int(labels[i]), guesses[i].item()] += 1
# <<< profiler_hunt.letters
