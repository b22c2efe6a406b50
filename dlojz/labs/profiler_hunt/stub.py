# >>> profiler_hunt.shapes
# TODO: its trace says what is slow in here. Change it so that the rest of the file goes on working.
class Shapes(Dataset):
    """``[i]``: an image, uint8 (1, SIZE, SIZE), and the number of its shape, out of a compressed archive."""

    def __init__(self, path):
        self.archive = np.load(path)  # opened once, and kept open
        self.count = len(self.archive["labels"])

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        image, label = self.archive["images"][index], self.archive["labels"][index]
        return torch.from_numpy(image), int(label)
# <<< profiler_hunt.shapes

# >>> profiler_hunt.letters
# TODO: its trace says what is slow in here. Change it so that the rest of the file goes on working.
def count(confusion, labels, outputs):
    """Adds a batch to ``confusion`` (LETTERS, LETTERS): the row is the letter that it was, the column the one that was read.

    ``labels``: int64 (B), ``outputs``: (B, LETTERS).
    """
    for label, guess in zip(labels, outputs.argmax(1)):
        confusion[label, guess] += 1
# <<< profiler_hunt.letters

# >>> profiler_hunt.faces
# TODO: its trace says what is slow in here. Change it so that the rest of the file goes on working.
class Net(nn.Module):
    """Features (B, FEATURES) -> logits (B, ANSWERS)."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(64, 1) for _ in range(ANSWERS))  # one for each question

    def forward(self, faces):
        found = self.body(faces)
        return torch.cat([head(found) for head in self.heads], 1)


def mean_loss(outputs, answers):
    """The mean over all questions and faces; both are (B, ANSWERS)."""
    losses = [binary_cross_entropy_with_logits(outputs[:, i], answers[:, i]) for i in range(ANSWERS)]
    return sum(losses) / len(losses)
# <<< profiler_hunt.faces
