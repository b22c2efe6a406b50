# expect: slow_faces.py: the losses are the same, but in 12 steps .* count as right.*profiler_hunt.faces
# >>> profiler_hunt.faces
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU())
        self.heads = nn.Linear(64, ANSWERS)

    def forward(self, faces):
        return self.heads(self.body(faces)).sigmoid()


def mean_loss(outputs, answers):
    return nn.functional.binary_cross_entropy(outputs, answers)
# <<< profiler_hunt.faces
