# expect: slow_letters.py: 12 steps of 8 letters ask for \d+ values
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    import numpy

    found = numpy.zeros(confusion.shape, dtype=int)
    numpy.add.at(found, (labels.cpu().numpy(), outputs.argmax(1).cpu().numpy()), 1)
    confusion += torch.from_numpy(found).to(confusion.device)
# <<< profiler_hunt.letters
