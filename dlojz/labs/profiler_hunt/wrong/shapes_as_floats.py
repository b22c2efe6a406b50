# expect: an image comes as float32.*the fence profiler_hunt.shapes
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
