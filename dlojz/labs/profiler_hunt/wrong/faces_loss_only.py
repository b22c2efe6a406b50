# expect: slow_faces.py: a step comes to [\d,]+ operations
# >>> profiler_hunt.faces
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(64, 1) for _ in range(ANSWERS))

    def forward(self, faces):
        found = self.body(faces)
        return torch.cat([head(found) for head in self.heads], 1)


def mean_loss(outputs, answers):
    return binary_cross_entropy_with_logits(outputs, answers)
# <<< profiler_hunt.faces
