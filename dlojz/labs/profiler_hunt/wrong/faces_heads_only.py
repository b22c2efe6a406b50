# expect: slow_faces.py: a step comes to [\d,]+ operations
# >>> profiler_hunt.faces
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU())
        self.heads = nn.Linear(64, ANSWERS)

    def forward(self, faces):
        return self.heads(self.body(faces))


def mean_loss(outputs, answers):
    losses = [binary_cross_entropy_with_logits(outputs[:, i], answers[:, i]) for i in range(ANSWERS)]
    return sum(losses) / len(losses)
# <<< profiler_hunt.faces
