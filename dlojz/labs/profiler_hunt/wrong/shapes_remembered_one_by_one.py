# expect: slow_shapes.py: in 12 steps of 8 images, arrays of the archive are unpacked
# >>> profiler_hunt.shapes
class Shapes(Dataset):
    def __init__(self, path):
        self.archive, self.known = np.load(path), {}

    def __len__(self):
        return len(self.archive["labels"])

    def __getitem__(self, index):
        if index not in self.known:
            self.known[index] = torch.from_numpy(self.archive["images"][index]), int(self.archive["labels"][index])
        return self.known[index]
# <<< profiler_hunt.shapes
