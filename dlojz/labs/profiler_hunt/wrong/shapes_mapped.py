# expect: slow_shapes.py: in 12 steps of 8 images, arrays of the archive are unpacked
# >>> profiler_hunt.shapes
class Shapes(Dataset):
    def __init__(self, path):
        self.archive = np.load(path, mmap_mode="r")  # which does nothing for a compressed archive
        self.labels = self.archive["labels"]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return torch.from_numpy(self.archive["images"][index]), int(self.labels[index])
# <<< profiler_hunt.shapes
