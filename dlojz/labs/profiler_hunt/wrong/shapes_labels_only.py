# expect: slow_shapes.py: in 12 steps of 8 images, arrays of the archive are unpacked 9\d times
# >>> profiler_hunt.shapes
class Shapes(Dataset):
    def __init__(self, path):
        self.archive = np.load(path)
        self.labels = self.archive["labels"].tolist()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return torch.from_numpy(self.archive["images"][index]), self.labels[index]
# <<< profiler_hunt.shapes
