# expect: slow_shapes.py: with the same seed the loss of step \d+ is .* the fence profiler_hunt.shapes
# >>> profiler_hunt.shapes
class Shapes(Dataset):
    def __init__(self, path):
        with np.load(path) as archive:
            order = archive["labels"].argsort()
            self.images, self.labels = torch.from_numpy(archive["images"]), archive["labels"][order]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], int(self.labels[index])
# <<< profiler_hunt.shapes
