# TODO: its trace says what is slow in here. Change it so that the rest of the file goes on working.
class Shapes(Dataset):
    """``[i]``: an image, uint8 (1, SIZE, SIZE), and the number of its shape, out of a compressed archive."""

    def __init__(self, path):
        self.archive = np.load(path)  # opened once, and kept open
        self.count = len(self.archive["labels"])

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        image, label = self.archive["images"][index], self.archive["labels"][index]
        return torch.from_numpy(image), int(label)
