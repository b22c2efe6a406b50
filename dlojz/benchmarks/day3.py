"""What optimizers cost and how many steps they take, kept small in docs/results/ beside the page that quotes it.

    python -m dlojz.benchmarks.day3 update batches switches     on a GPU; with --seconds: the most that `batches` may take
    python -m dlojz.benchmarks.day3 batches --more              what is missing in the record of this GPU
    python -m dlojz.benchmarks.day3 --page                      the tables of docs/day3.md anew, from what is kept

``update``: the update of 100 million parameters, by optimizer and implementation, against the time that its bytes need.
``batches``: steps to a training loss against the batch size, for each optimizer at its best learning rate, with three seeds. The
learning rate is searched at 512 images; for other batch sizes it follows the rules of scaling, with and without warm-up.
``switches``: what train.py's --label-smoothing and --progressive bring: accuracy after so many epochs, and seconds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from ..labs.optimizers.updates import DECAY, MEAN_OVER, MOMENTUM, reference, smoothed, update
from ..system import paths, suggest
from ..ui import words
from . import day2, pages

PAGE = paths.PACKAGE.parent / "docs" / "day3.md"
BATCHES = (8, 32, 128, 512, 2048, 8192, 32768)
SEARCHED = 512  # the batch size at which the learning rate is searched
TARGETS = (1.5, 1.0, 0.5)  # training losses; the search goes by the last
SEEDS = (1, 2, 3)
FIRST = {"sgd": 0.2, "adamw": 4e-3, "lars": 1.4, "lamb": 2e-2, "lion": 1e-3, "muon": 8e-3}  # where the search begins, at SEARCHED
RULES = {"linear": 1.0, "sqrt": 0.5, "same": 0.0}  # lr in proportion to the batch size to this power
WARMUP = 10  # updates, where there is a warm-up
WARMED = 2048  # the smallest batch that is tried with and without


# ------------------------------------------------------------------------------------------------- steps against the batch size
class Passes:
    """The forward and backward pass for one batch size; on a GPU one CUDA graph, so that the host is not what is measured."""

    def __init__(self, net, batch: int, device, side: int = 32, smoothing: float = 0.0):
        import torch

        self.net, self.device, self.smoothing = net, device, smoothing
        last = {"memory_format": torch.channels_last}
        self.images = torch.zeros(batch, 3, side, side, device=device).contiguous(**last)
        self.labels = torch.zeros(batch, dtype=torch.int64, device=device)
        self.graph = None
        if device.type != "cuda":
            return
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(3):
                self._compute()
        torch.cuda.current_stream().wait_stream(beside)
        net.zero_grad(set_to_none=True)  # so that a replay writes gradients and does not add to them
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self._compute()
        self.grads = [each.grad for each in net.parameters()]  # where this graph writes them

    def _compute(self):
        import torch

        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda", cache_enabled=False):
            outputs = self.net(self.images)
        loss = torch.nn.functional.cross_entropy(outputs.float(), self.labels, label_smoothing=self.smoothing)
        loss.backward()
        return loss

    def __call__(self, images, labels):
        """The loss. ``images``: uint8, or float of this side."""
        from ..data import normalize

        self.images.copy_(normalize(images) if not images.is_floating_point() else images)
        self.labels.copy_(labels)
        if self.graph is None:
            self.net.zero_grad()
            return self._compute().detach()
        for each, grad in zip(self.net.parameters(), self.grads):
            each.grad = grad
        self.graph.replay()
        return self.loss.detach().clone()


@dataclass
class Bench:
    """Images on the device, and a net whose weights each run begins anew."""

    device: object
    pool: int
    until: float  # time.monotonic() at which nothing new begins
    optimizers: object = field(default_factory=reference)
    passes: dict = field(default_factory=dict)

    def __post_init__(self):
        import torch

        from ..data import small
        from ..training.small_resnet import SmallResNet

        self.images, self.labels = small.drawn(self.pool, 7, self.device)
        self.starts = {}
        for seed in SEEDS:
            torch.manual_seed(seed)
            self.starts[seed] = SmallResNet().state_dict()
        torch.backends.cudnn.benchmark = True
        self.net = SmallResNet().to(self.device, memory_format=torch.channels_last).train()

    def losses(self, name: str, batch: int, lr: float, warmup: int, seed: int, most: int) -> list[float]:
        """The training loss of each step until the last of TARGETS, ``most`` steps, or what will not come back."""
        import torch

        if batch not in self.passes:
            self.passes.clear()  # the memory of one graph at a time
            self.passes[batch] = Passes(self.net, batch, self.device)
        compute = self.passes[batch]
        self.net.load_state_dict(self.starts[seed])
        optimizer = self.optimizers.make_optimizer(name, self.optimizers.parameter_groups(self.net, DECAY), lr, MOMENTUM,
                                                   self.device.type == "cuda")
        generator = torch.Generator(self.device).manual_seed(seed)
        every, waiting, found = max(1, MEAN_OVER // batch), [], []
        for step in range(most):
            if step * batch % self.pool < batch:
                order = torch.randperm(self.pool, generator=generator, device=self.device)
            first = step * batch % max(1, self.pool - batch + 1)
            index = order[first : first + batch]
            loss = compute(self.images[index], self.labels[index])
            for group in optimizer.param_groups:
                group["lr"] = lr * self.optimizers.share("constant", step, most, warmup)
            optimizer.step()
            waiting.append(loss)
            if len(waiting) == every or step == most - 1:
                found += torch.stack(waiting).tolist()
                waiting = []
                mean = smoothed(found, batch)[-1]
                if mean <= TARGETS[-1] or not mean < 20 or (step > 60 and mean > 3):
                    break
        return found


def reached(losses: list[float], batch: int) -> dict[str, int | None]:
    """After how many steps each of TARGETS was reached; None where it was not."""
    means, over = smoothed(losses, batch), max(1, MEAN_OVER // batch)
    return {f"{target:g}": next((at for at, mean in enumerate(means, 1) if at >= over and mean <= target), None)
            for target in TARGETS}


def batches(device, pool: int, sizes: tuple[int, ...], seconds: float, most: int, done=lambda rows: None,
            names: tuple[str, ...] = tuple(FIRST), rows: tuple[dict, ...] = ()) -> list[dict]:
    """A row for each run: optimizer, batch, lr, rule, warmup, seed, steps to each target, and of the best a short curve.

    ``rows``: of an earlier call, which are not measured again.
    """
    began = time.monotonic()
    bench, rows = Bench(device, pool, began + seconds), list(rows)
    best = {(row["optimizer"], row["batch"]): row for row in rows if row["best"] and row["seed"] == SEEDS[0]}
    there = {(row["optimizer"], row["batch"], row["seed"]) for row in rows if row["best"]}

    def tried(name, batch, lr, rule, warmup, seed, cap) -> None:
        at = time.monotonic()
        losses = bench.losses(name, batch, lr, warmup, seed, cap)
        steps = reached(losses, batch)
        rows.append({"optimizer": name, "batch": batch, "lr": lr, "rule": rule, "warmup": warmup, "seed": seed, "steps": steps,
                     "ran": len(losses), "curve": thinned(smoothed(losses, batch))})
        row = rows[-1]
        print(f"{time.monotonic() - began:6.1f} s  {name:<6}{batch:>6}  lr {lr:<9.4g}{rule:<7}warm-up {warmup:<3}seed {seed}  "
              f"{steps}  {len(losses)} steps, {(time.monotonic() - at) / max(1, len(losses)) * 1000:.2f} ms each", flush=True)
        known = best.get((name, batch))
        if seed == SEEDS[0] and (known is None or score(row) < score(known)):
            best[name, batch] = row
        done(marked(rows, best))

    searched = SEARCHED if SEARCHED in sizes else sizes[0]
    nearest = sorted(sizes, key=lambda size: abs(math.log(size / searched)))
    for name, lr in FIRST.items():  # uphill from the first guess, by factors of 2
        for way in (2.0, 0.5):
            rate = lr if way == 2.0 else lr / 2
            while time.monotonic() < bench.until and name in names and (name, searched, SEEDS[0]) not in there:
                before = best.get((name, searched))
                cap = most if before is None else min(most, before["ran"] + 8)
                tried(name, searched, rate, "search", 0, SEEDS[0], cap)
                if before is not None and best[name, searched] is before:
                    break
                rate *= way
            if way == 2.0 and (name, searched) in best and best[name, searched]["lr"] != lr:
                break
    for batch in nearest:
        for name in names:
            if batch == searched or (name, searched) not in best or (name, batch, SEEDS[0]) in there:
                continue
            lr = best[name, searched]["lr"]
            for rule, warmup in itertools.product(RULES, (0, WARMUP) if batch >= WARMED else (0,)):
                if time.monotonic() > bench.until:
                    break
                known, smaller = best.get((name, batch)), best.get((name, searched))
                usual = smaller["ran"] * max(1, 2 * searched // batch) + WARMUP
                cap = min(most, known["ran"] + 1 if known and known["steps"][f"{TARGETS[-1]:g}"] else usual)
                tried(name, batch, lr * (batch / searched) ** RULES[rule], rule, warmup, SEEDS[0], cap)
    for batch, seed, name in itertools.product(nearest, SEEDS[1:], names):
        if (name, batch) in best and (name, batch, seed) not in there and time.monotonic() < bench.until:
            row = best[name, batch]
            tried(name, batch, row["lr"], row["rule"], row["warmup"], seed, min(most, 3 * row["ran"] + 20))
    return marked(rows, best)


def marked(rows: list[dict], best: dict) -> list[dict]:
    """Each row with whether it is a run with the best learning rate of its optimizer and batch size; only those keep curves."""
    kept = {(name, batch): (row["lr"], row["warmup"]) for (name, batch), row in best.items()}
    found = [row | {"best": kept.get((row["optimizer"], row["batch"])) == (row["lr"], row["warmup"])} for row in rows]
    return [row if row["best"] else {name: value for name, value in row.items() if name != "curve"} for row in found]


def score(row: dict) -> tuple:
    """Smaller is better: steps to the hardest target, or how far a run came."""
    steps = row["steps"][f"{TARGETS[-1]:g}"]
    low = min((loss for _, loss in row["curve"] if math.isfinite(loss)), default=math.inf)
    return (0, steps) if steps else (1, low)


def thinned(means: list[float], points: int = 24) -> list[list]:
    """(step, loss), of so many steps at most."""
    step = max(1, -(-len(means) // points))
    at = sorted({*range(step, len(means) + 1, step), len(means)} - {0})
    return [[number, round(means[number - 1], 3)] for number in at]


# ------------------------------------------------------------------------------------------------------------ two switches
WAYS = {"neither": (0.0, False), "--label-smoothing 0.1": (0.1, False), "--progressive": (0.0, True), "both": (0.1, True)}
HELD_OUT = 10_000  # images of the validation, on a GPU


def switches(device, pool: int, batch: int, epochs: int, lr: float, done=lambda rows: None) -> list[dict]:
    """A row for each of WAYS and seed: accuracy and (plain) loss over images that were not trained on, and seconds of training.
    SGD, with warm-up and cosine; the same images in each epoch."""
    import torch

    from ..data import normalize, small

    bench = Bench(device, pool, math.inf)
    shrunk = _sibling("augment").shrunk
    held = small.drawn(HELD_OUT if device.type == "cuda" else pool // 5, 2, device)
    steps, made, rows = pool // batch * epochs, {}, []

    def compute(images, labels, smoothing):
        key = (images.shape[-1], smoothing)
        made[key] = made.get(key) or Passes(bench.net, batch, device, *key)
        return made[key](images, labels)

    def run(seed, smoothing, progressive) -> float:
        """Seconds of a training."""
        bench.net.load_state_dict(bench.starts[seed])
        bench.net.train()
        optimizer = bench.optimizers.make_optimizer("sgd", bench.optimizers.parameter_groups(bench.net, DECAY), lr, MOMENTUM,
                                                    device.type == "cuda")
        generator = torch.Generator(device).manual_seed(seed)
        how, began = argparse.Namespace(progressive=progressive, image_size=32), _now(device)
        for step in range(steps):
            at = step % (pool // batch) * batch
            if at == 0:
                order = torch.randperm(pool, generator=generator, device=device)
            index = order[at : at + batch]
            compute(shrunk(normalize(bench.images[index]), how, step, steps), bench.labels[index], smoothing)
            for group in optimizer.param_groups:
                group["lr"] = lr * bench.optimizers.share("cosine", step, steps, steps // 20)
            optimizer.step()
        return _now(device) - began

    for smoothing, progressive in WAYS.values():
        if device.type == "cuda":
            run(SEEDS[0], smoothing, progressive)  # all sizes are captured, and their algorithms chosen
    for seed, (name, (smoothing, progressive)) in itertools.product(SEEDS, WAYS.items()):
        seconds = run(seed, smoothing, progressive)
        bench.net.eval()
        with torch.no_grad():
            outputs = torch.cat([bench.net(normalize(part)).float() for part in held[0].split(1000)])
        rows.append({"way": name, "seed": seed, "seconds": seconds, "steps": steps, "batch": batch, "epochs": epochs, "lr": lr,
                     "images": pool, "accuracy": (outputs.argmax(1) == held[1]).float().mean().item(),
                     "loss": torch.nn.functional.cross_entropy(outputs, held[1]).item()})
        print("{way:<24} seed {seed}  accuracy {accuracy:.4f}  loss {loss:.4f}  {seconds:.2f} s".format(**rows[-1]), flush=True)
        done(rows)
    return rows


def _now(device) -> float:
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize()
    return time.perf_counter()


def _sibling(name: str):
    """A file of dlojz/reference, which imports its siblings."""
    folder = str(paths.PACKAGE / "reference")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return __import__(name)


# ---------------------------------------------------------------------------------------------------------------- the page
def described(suite: str, device, rows: list[dict], **more) -> dict:
    from ..system import machine

    told = machine.describe(device)
    hardware = {name: value for name, value in told["machine"].items() if name not in ("host", "gpu_uuid")}
    return {"suite": suite, "date": time.strftime("%Y-%m-%d", time.gmtime()), **more, "processes": 1, "machine": hardware,
            "versions": told["versions"], "rows": rows}


def measured(found: dict, folder: Path) -> list[dict]:
    """The rows that are kept of this suite, this device and this torch."""
    file = day2.file_of(found, folder)
    before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"versions": {}}
    return before["rows"] if before["versions"].get("torch") == found["versions"].get("torch") else []


def page(text: str, folder: Path) -> str:
    """The page with the tables of these suites made anew."""
    return pages.rebuilt(text, folder, {name: (name, table) for name in TABLES})


def table(found: dict) -> str:
    head, rows, said = TABLES[found["suite"]](found)
    return pages.table(found, head, rows, said)


def table_of_updates(found: dict) -> tuple[list[str], list[list[str]], str]:
    rows = [[f"{r['optimizer']}, {r['implementation']}", f"{r['ms']:.2f}" if r["ms"] else r.get("error", "-"),
             f"{r['at_least_ms']:.2f}", f"{r['ms'] / r['at_least_ms']:.1f}" if r["ms"] else "-",
             f"{r['state_bytes_per_parameter']:.0f}" if r["ms"] else "-"] for r in found["rows"]]
    one = found["rows"][0]
    said = f"{one['parameters'] / 1e6:.1f} million parameters in float32, {one['bandwidth'] / 1e12:.2f} TB/s in a copy"
    return ["optimizer", "ms per update", "ms at least, by its bytes", "ratio", "bytes of state per parameter"], rows, said


def table_of_batches(found: dict) -> tuple[list[str], list[list[str]], str]:
    target, made = f"{TARGETS[-1]:g}", []
    sizes = sorted({r["batch"] for r in found["rows"]})
    for name in FIRST:
        cells = [name]
        for batch in sizes:
            best = [r for r in found["rows"] if r["best"] and (r["optimizer"], r["batch"]) == (name, batch)]
            steps = sorted(r["steps"][target] or math.inf for r in best)
            if not best:
                cells.append("-")
            elif steps[-1] == math.inf:
                cells.append(f"not in {max(r['ran'] for r in best)}")
            else:
                r = best[0]
                spread = f"{steps[0]} to {steps[-1]}" if len(steps) > 1 and steps[0] != steps[-1] else f"{steps[0]}"
                cells.append(f"{spread} (lr {r['lr']:.2g}{', warm-up' if r['warmup'] else ''})")
        made.append(cells)
    said = (f"small_resnet, the set `tiny`; steps to a training loss of {target}, the lowest and the highest of "
            f"{len(SEEDS)} seeds, at the best learning rate found")
    return ["optimizer", *(f"{size:,} images" for size in sizes)], made, said


def table_of_switches(found: dict) -> tuple[list[str], list[list[str]], str]:
    def spread(name: str, what: str, form: str) -> str:
        least, *_, most = (f"{number:{form}}" for number in sorted(r[what] for r in found["rows"] if r["way"] == name))
        return least if least == most else f"{least} to {most}"

    one = found["rows"][0]
    said = (f"small_resnet, {words.counted(one['epochs'], 'epoch')} of {one['images']:,} images of `tiny`, {one['batch']} at "
            f"a time, SGD with cosine, lr {one['lr']:g}; the lowest and the highest of {len(SEEDS)} seeds")
    return (["switch", "accuracy in validation", "loss in validation", "seconds"],
            [[name, spread(name, "accuracy", ".2%"), spread(name, "loss", ".3f"), spread(name, "seconds", ".2f")]
             for name in dict.fromkeys(r["way"] for r in found["rows"])], said)


TABLES = {"update": table_of_updates, "batches": table_of_batches, "switches": table_of_switches}


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dlojz.benchmarks.day3", description=__doc__.split("\n")[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"any of {', '.join(TABLES)}")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--parameters", type=int, default=100_000_000, help="for update (%(default)s)")
    parser.add_argument("--pool", type=int, default=2**19, help="for batches: images to draw (%(default)s)")
    parser.add_argument("--sizes", type=int, nargs="+", default=BATCHES, help="for batches: images of a batch (%(default)s)")
    parser.add_argument("--optimizers", nargs="+", choices=FIRST, default=list(FIRST), help="for batches (all)", metavar="NAME")
    parser.add_argument("--more", action="store_true", help="for batches: keep what this GPU and torch have measured before")
    parser.add_argument("--seconds", type=float, default=120, help="for batches: no run begins later than that (%(default)s)")
    parser.add_argument("--steps", type=int, default=3000, help="for batches: the most of a run (%(default)s)")
    parser.add_argument("--epochs", type=int, default=10, help="for switches (%(default)s)")
    parser.add_argument("--out", type=Path, default=day2.RESULTS, help="where to keep what was measured (%(default)s)")
    parser.add_argument("--page", action="store_true", help="write the tables of docs/day3.md again, and measure nothing")
    args = parser.parse_args(argv)
    if unknown := [name for name in args.suites if name not in TABLES]:
        parser.error(f"there is no suite {unknown[0]!r}: {suggest.hint(unknown[0], TABLES)}Expected are {', '.join(TABLES)}")
    if args.page:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), args.out), encoding="utf-8")
        return 0
    if not args.suites:
        parser.error(f"name a suite: {', '.join(TABLES)}")
    import torch

    device = torch.device("cuda" if args.device == "auto" and torch.cuda.is_available() else args.device.replace("auto", "cpu"))
    failed = 0
    for suite in args.suites:
        def done(rows, suite=suite):
            day2.keep(described(suite, device, rows), args.out)
            if suite == "update":
                print(" | ".join(table_of_updates({"rows": rows[-1:]})[1][0]), flush=True)

        try:
            if suite == "update":
                update(device, args.parameters, done)
            elif suite == "switches":
                gpu = device.type == "cuda"
                switches(device, 50_000 if gpu else 2000, 256 if gpu else 50, args.epochs, 0.1, done)
            else:
                rows = measured(described(suite, device, []), args.out) if args.more else ()
                batches(device, args.pool, tuple(args.sizes), args.seconds, args.steps, done, tuple(args.optimizers), rows)
        except Exception as error:  # the other suite may be well
            failed += 1
            print(f"{suite}: {type(error).__name__}: {error}", file=sys.stderr)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
