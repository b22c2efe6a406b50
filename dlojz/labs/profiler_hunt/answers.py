# right: as a convolution
# >>> profiler_hunt.faces
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU())
        self.heads = nn.Conv1d(64, ANSWERS, 1)

    def forward(self, faces):
        return self.heads(self.body(faces)[:, :, None])[:, :, 0]


def mean_loss(outputs, answers):
    return torch.stack([binary_cross_entropy_with_logits(outputs, answers, reduction="none")]).mean(2).mean()
# <<< profiler_hunt.faces

# right: by hand
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    confusion.view(-1).scatter_add_(0, labels * LETTERS + outputs.argmax(1), torch.ones_like(labels))
# <<< profiler_hunt.letters
# >>> profiler_hunt.faces
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(ANSWERS, 64)), nn.Parameter(torch.empty(ANSWERS))

    def forward(self, found):
        return torch.einsum("bf,af->ba", found, self.weight) + self.bias


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU())
        self.heads = Heads()

    def forward(self, faces):
        return self.heads(self.body(faces))


def mean_loss(outputs, answers):
    return (nn.functional.softplus(outputs) - outputs * answers).mean()
# <<< profiler_hunt.faces

# right: letters one hot
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    asked, read = (torch.nn.functional.one_hot(each, LETTERS).float() for each in (labels, outputs.argmax(1)))
    confusion += (asked.T @ read).long()
# <<< profiler_hunt.letters

# right: read at the first item
# >>> profiler_hunt.shapes
import functools


@functools.lru_cache(maxsize=1)
def unpacked(path):
    return {name: array for name, array in np.load(path).items()}


class Shapes(Dataset):
    def __init__(self, path):
        self.path = path

    def __len__(self):
        return len(unpacked(self.path)["labels"])

    def __getitem__(self, index):
        archive = unpacked(self.path)
        return torch.from_numpy(archive["images"][index]), int(archive["labels"][index])
# <<< profiler_hunt.shapes
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    read = nn.functional.one_hot(outputs.argmax(1), LETTERS)
    confusion.index_add_(0, labels, read)
# <<< profiler_hunt.letters

# right: shapes as tensors
# >>> profiler_hunt.shapes
def Shapes(path):
    archive = np.load(path)
    return torch.utils.data.TensorDataset(torch.from_numpy(archive["images"]), torch.from_numpy(archive["labels"]))
# <<< profiler_hunt.shapes
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    places = torch.zeros_like(confusion.view(-1)).index_add_(0, labels * LETTERS + outputs.argmax(1), torch.ones_like(labels))
    confusion += places.view(LETTERS, LETTERS)
# <<< profiler_hunt.letters

# wrong: faces heads only · expect: `train` takes [\d.]+ times as many operations of torch(.|\n)*however many there are(.|\n)*the fence profiler_hunt.faces
# >>> profiler_hunt.faces
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU())
        self.heads = nn.Linear(64, ANSWERS)

    def forward(self, faces):
        return self.heads(self.body(faces))


def mean_loss(outputs, answers):
    losses = [binary_cross_entropy_with_logits(outputs[:, i], answers[:, i]) for i in range(ANSWERS)]
    return sum(losses) / len(losses)
# <<< profiler_hunt.faces

# wrong: faces loss in pieces · expect: `train` takes [\d.]+ times as many operations of torch(.|\n)*however many there are(.|\n)*the fence profiler_hunt.faces
# >>> profiler_hunt.faces
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU())
        self.heads = nn.Linear(64, ANSWERS)

    def forward(self, faces):
        return self.heads(self.body(faces))


def mean_loss(outputs, answers):
    losses = [binary_cross_entropy_with_logits(*piece) for piece in zip(outputs.split(10, 1), answers.split(10, 1))]
    return sum(losses) / len(losses)
# <<< profiler_hunt.faces

# wrong: faces summed · expect: `train`, 12 steps: the loss is .*learns the same
# >>> profiler_hunt.faces
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU())
        self.heads = nn.Linear(64, ANSWERS)

    def forward(self, faces):
        return self.heads(self.body(faces))


def mean_loss(outputs, answers):
    return binary_cross_entropy_with_logits(outputs, answers, reduction="sum") / len(answers)
# <<< profiler_hunt.faces

# wrong: letters as numbers · expect: slow_letters.py: on a GPU each step waits to read a value.*line \d+ of hunt/slow_letters.py
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    guesses = outputs.argmax(1)
    for i in range(len(labels)):
        confusion[int(labels[i]), guesses[i].item()] += 1
# <<< profiler_hunt.letters

# wrong: letters by bincount · expect: for a size that depends on values \(`bincount`\).*line \d+ of hunt/slow_letters.py
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    found = torch.bincount(labels * LETTERS + outputs.argmax(1), minlength=LETTERS * LETTERS)
    confusion += found.view(LETTERS, LETTERS)
# <<< profiler_hunt.letters

# wrong: letters counted once a place · expect: `count`, a batch of 8 letters: the result is 2 at .*it is 8: each letter counts
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    confusion[labels, outputs.argmax(1)] += 1
# <<< profiler_hunt.letters

# wrong: letters in numpy · expect: slow_letters.py: on a GPU each step waits to copy a tensor to the CPU.*numpy
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    import numpy

    found = numpy.zeros(confusion.shape, dtype=int)
    numpy.add.at(found, (labels.cpu().numpy(), outputs.argmax(1).cpu().numpy()), 1)
    confusion += torch.from_numpy(found).to(confusion.device)
# <<< profiler_hunt.letters

# wrong: letters ones on the cpu · expect: on the same device.*profiler_hunt.letters
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    ones = torch.ones(len(labels), dtype=torch.int64)
    confusion.index_put_((labels, outputs.argmax(1)), ones, accumulate=True)
# <<< profiler_hunt.letters

# wrong: shapes as floats · expect: the image is float32.*as in the archive.*the fence profiler_hunt.shapes
# >>> profiler_hunt.shapes
class Shapes(Dataset):
    def __init__(self, path):
        with np.load(path) as archive:
            self.images, self.labels = torch.from_numpy(archive["images"]).float(), archive["labels"].tolist()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]
# <<< profiler_hunt.shapes

# wrong: shapes copied whole · expect: the memory that one image takes is more than 32 KiB.*without copying the others
# >>> profiler_hunt.shapes
class Shapes(Dataset):
    def __init__(self, path):
        with np.load(path) as archive:
            self.images, self.labels = archive["images"], archive["labels"].tolist()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return torch.tensor(self.images)[index], self.labels[index]
# <<< profiler_hunt.shapes

# wrong: shapes opened each time · expect: arrays of the archive are unpacked \d+ times.*line \d+ of hunt/slow_shapes.py
# >>> profiler_hunt.shapes
class Shapes(Dataset):
    def __init__(self, path):
        self.path = path
        self.count = len(np.load(path)["labels"])

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        archive = np.load(self.path)
        return torch.from_numpy(archive["images"][index]), int(archive["labels"][index])
# <<< profiler_hunt.shapes

# wrong: letters by histogram · expect: `count`, a batch of 8 letters: stops with NotImplementedError: torch has no `.*` for GPUs.*profiler_hunt.letters
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    pairs = torch.stack([labels, outputs.argmax(1)], 1).float()  # there is no kernel for a GPU
    confusion += torch.histogramdd(pairs, bins=[LETTERS, LETTERS], range=[0, LETTERS, 0, LETTERS]).hist.long()
# <<< profiler_hunt.letters
