# expect: slow_letters.py: a step with 8 letters comes to [1-9],\d+ operations
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    guesses = outputs.argmax(1)
    for letter in range(LETTERS):
        for other in range(LETTERS):
            confusion[letter, other] += ((labels == letter) & (guesses == other)).sum()
# <<< profiler_hunt.letters
