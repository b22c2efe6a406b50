# TODO: its trace says what is slow in here. Change it so that the rest of the file goes on working.
def count(confusion, labels, outputs):
    """Adds a batch to ``confusion`` (LETTERS, LETTERS): the row is the letter that it was, the column the one that was read.

    ``labels``: int64 (B), ``outputs``: (B, LETTERS).
    """
    for label, guess in zip(labels, outputs.argmax(1)):
        confusion[label, guess] += 1
