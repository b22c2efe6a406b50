# expect: slow_faces.py: a step comes to \d+ operations, so some are still done(.|\n)*the fence profiler_hunt.faces
# >>> profiler_hunt.faces
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(64, 10) for _ in range(4))

    def forward(self, faces):
        found = self.body(faces)
        return torch.cat([head(found) for head in self.heads], 1)


def mean_loss(outputs, answers):
    return binary_cross_entropy_with_logits(outputs, answers)
# <<< profiler_hunt.faces
