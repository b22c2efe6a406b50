# expect: slow_shapes.py: to get one image of 256 bytes, 13\d,\d+ bytes are written
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
