# >>> profiler_hunt.shapes
def Shapes(path):
    archive = np.load(path)
    return torch.utils.data.TensorDataset(torch.from_numpy(archive["images"]), torch.from_numpy(archive["labels"]))
# <<< profiler_hunt.shapes
# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    places = torch.bincount(labels * LETTERS + outputs.argmax(1), minlength=LETTERS**2)
    confusion += places.view(LETTERS, LETTERS)
# <<< profiler_hunt.letters
