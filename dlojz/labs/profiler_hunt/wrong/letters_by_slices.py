# expect: operations to count 8 letters, and \d+ to count 32(.|\n)*the fence profiler_hunt.letters
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    guesses = outputs.argmax(1)
    for i in range(0, len(labels), 4):
        one = torch.ones_like(labels[i : i + 4])
        confusion.index_put_((labels[i : i + 4], guesses[i : i + 4]), one, accumulate=True)
# <<< profiler_hunt.letters
