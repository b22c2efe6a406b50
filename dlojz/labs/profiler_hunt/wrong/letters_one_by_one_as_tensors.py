# expect: it takes 13 operations to count 8 letters, and 37 to count 32(.|\n)*the fence profiler_hunt.letters
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    one = torch.ones(1, dtype=torch.int64, device=labels.device)
    for letter, guess in zip(labels.split(1), outputs.argmax(1).split(1)):
        confusion.index_put_((letter, guess), one, accumulate=True)
# <<< profiler_hunt.letters
