# expect: slow_shapes.py: in 12 steps of 8 images, arrays of the archive are unpacked 19\d times.*line \d+ of hunt/slow_shapes.py
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
