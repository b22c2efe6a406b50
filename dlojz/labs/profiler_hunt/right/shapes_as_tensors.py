# >>> profiler_hunt.shapes
def Shapes(path):
    archive = np.load(path)
    return torch.utils.data.TensorDataset(torch.from_numpy(archive["images"]), torch.from_numpy(archive["labels"]))
# <<< profiler_hunt.shapes
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    places = torch.zeros_like(confusion.view(-1)).index_add_(0, labels * LETTERS + outputs.argmax(1), torch.ones_like(labels))
    confusion += places.view(LETTERS, LETTERS)
# <<< profiler_hunt.letters
