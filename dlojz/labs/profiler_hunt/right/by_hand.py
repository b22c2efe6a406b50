# >>> profiler_hunt.letters
def count(confusion, labels, outputs):
    confusion.view(-1).scatter_add_(0, labels * LETTERS + outputs.argmax(1), torch.ones_like(labels))
# <<< profiler_hunt.letters
# >>> profiler_hunt.faces
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(ANSWERS, 64)), nn.Parameter(torch.empty(ANSWERS))

    def forward(self, found):
        return torch.einsum("bf,af->ba", found, self.weight) + self.bias


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU())
        self.heads = Heads()

    def forward(self, faces):
        return self.heads(self.body(faces))


def mean_loss(outputs, answers):
    return (nn.functional.softplus(outputs) - outputs * answers).mean()
# <<< profiler_hunt.faces
