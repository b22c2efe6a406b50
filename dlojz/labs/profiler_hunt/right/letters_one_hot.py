# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    asked, read = (torch.nn.functional.one_hot(each, LETTERS).float() for each in (labels, outputs.argmax(1)))
    confusion += (asked.T @ read).long()
# <<< profiler_hunt.letters
