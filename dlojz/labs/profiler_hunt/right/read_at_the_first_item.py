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
