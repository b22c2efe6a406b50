# expect: a short training of `hunt/slow_shapes.py` stops with (.|\n)*the fence profiler_hunt.shapes, line
# >>> profiler_hunt.shapes
class Shapes(Dataset):
    def __init__(self, path):
        archive = np.load(path)
        self.images, self.labels = torch.from_numpy(archive["images"]), archive["labels"].tolist()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index].flatten(), self.labels[index]
# <<< profiler_hunt.shapes
