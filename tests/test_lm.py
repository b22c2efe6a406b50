"""The language model: who sees whom, generation with a cache, the sizes; and the text that it learns from."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from training import LANGUAGE, environment

from dlojz.data import photos, texts
from dlojz.system.errors import UsageError

sys.path.insert(0, str(LANGUAGE.parent))
import lm

sys.path.pop(0)


@pytest.fixture
def net():
    """Small, with weights so large that attention is far from even."""
    torch.manual_seed(0)
    net = lm.Transformer(lm.Shape(layers=3, width=32, heads=2, vocabulary=40, length=64))
    with torch.no_grad():
        for weight in net.parameters():
            if weight.dim() > 1:
                weight.mul_(15)
    return net


def test_no_token_sees_those_after_it(net):
    tokens = torch.randint(0, 40, (2, 20))
    other = tokens.clone()
    other[:, 12:] = torch.randint(0, 40, (2, 8))
    assert torch.equal(net(tokens)[:, :12], net(other)[:, :12])
    assert not torch.allclose(net(tokens)[:, 12:], net(other)[:, 12:])


def test_with_a_mask_a_document_is_as_if_it_were_alone(net):
    """Wherever it begins in its row, whatever was packed before it; without the mask it is not."""
    separator, documents = 39, [torch.cat([torch.tensor([39]), torch.randint(0, 39, (length,))]) for length in (7, 1, 12, 9)]
    packed = torch.cat(documents)[None]
    masked, plain = net(packed, mask=lm.documents(packed, separator)), net(packed)
    first = 0
    for number, document in enumerate(documents):
        alone, here = net(document[None]), slice(first, first + len(document))
        torch.testing.assert_close(masked[:, here], alone, rtol=1e-4, atol=1e-4)
        assert (number == 0) == torch.allclose(plain[:, here], alone, rtol=1e-2, atol=1e-2)
        first += len(document)


def test_no_gradient_goes_from_one_document_to_another(net):
    tokens = torch.tensor([[5, 6, 39, 1, 2, 3, 39, 4, 5]])  # the first two are the end of a document whose begin was cut off
    held = []
    net.embedding.register_forward_hook(lambda module, args, x: held.append(x.retain_grad() or x))
    net(tokens, mask=lm.documents(tokens, 39))[0, 5].sum().backward()
    seen = held[0].grad[0].abs().sum(1) > 0
    assert seen.tolist() == [False, False, True, True, True, True, False, False, False]


def test_the_loss_is_the_mean_over_tokens_and_begins_at_that_of_a_guess():
    torch.manual_seed(0)
    net = lm.Transformer(lm.shape("1m", 320, 32))
    tokens = torch.randint(0, 320, (4, 33))
    loss = net(tokens[:, :-1], tokens[:, 1:])
    logits = net(tokens[:, :-1]).log_softmax(-1)
    expected = -logits.gather(2, tokens[:, 1:, None]).mean()
    torch.testing.assert_close(loss, expected)
    assert loss.item() == pytest.approx(math.log(320), abs=0.1)


def test_the_loss_for_the_compiler_is_the_same(net):
    tokens = torch.randint(0, 40, (2, 21))
    found = []
    for model in (net, torch.compile(net, backend="aot_eager")):
        net.zero_grad()
        loss = model(tokens[:, :-1], tokens[:, 1:])
        (2 * loss).backward()
        found.append([loss.detach(), *(weight.grad.clone() for weight in net.parameters())])
    torch.compiler.reset()
    for one, other in zip(*found):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    logits, targets = torch.randn(6, 40, dtype=torch.float64, requires_grad=True) * 30, torch.arange(6)
    torch.testing.assert_close(lm.CrossEntropy.apply(logits, targets).float(), F.cross_entropy(logits, targets).float())


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("prompt", [1, 9])
def test_generation_with_a_cache_is_generation_without(net, prompt, temperature):
    tokens = torch.randint(0, 40, (3, prompt))
    net.train()
    found = []
    for cached in (True, False):
        torch.manual_seed(1)
        found.append(lm.generate(net, tokens, 40, temperature, cached))
    assert torch.equal(*found) and net.training
    assert found[0].shape == (3, prompt + 40) and torch.equal(found[0][:, :prompt], tokens)
    assert len(found[0][0].unique()) > 3  # it does not repeat one token, which any mistake would do as well
    if not temperature:  # each one is the likeliest after those before it
        assert torch.equal(net(found[0])[:, prompt - 1 : -1].argmax(-1), found[0][:, prompt:])


def test_generation_ends_with_the_context(net):
    with pytest.raises(ValueError, match="60 \\+ 5 tokens are more than the 64"):
        lm.generate(net, torch.zeros(1, 60, dtype=torch.long), 5)


def test_what_saves_memory_gives_the_same_gradients(net):
    tokens = torch.randint(0, 40, (2, 20))
    found = []
    for net.recompute, net.chunks in (("", 1), ("all", 3), ("products", 1)):
        net.zero_grad()
        net(tokens, tokens.roll(-1, 1)).backward()
        found.append([weight.grad.clone() for weight in net.parameters()])
    for plain, *others in zip(*found):
        for other in others:
            torch.testing.assert_close(other, plain)


def test_presets_have_the_parameters_that_they_are_named_for():
    named = {"1m": 1e6, "10m": 1e7, "124m": 124e6, "350m": 350e6, "1b": 1e9, "3b": 3e9}
    assert lm.PRESETS.keys() == named.keys()
    for name, wanted in named.items():
        shape = lm.shape(name, 50304 if wanted > 1e8 else 320, 1024)
        with torch.device("meta"):
            net = lm.Transformer(shape)
        count = sum(weight.numel() for weight in net.parameters())
        assert 0.9 * wanted < count < 1.15 * wanted, name
        assert shape.width % shape.heads == 0 and shape.hidden % 64 == 0
    # 6 for each of GPT-2's parameters, and 12 x layers x width x tokens: PaLM's formula by hand
    assert lm.shape("124m", 50304, 1024).flops_per_token(123_550_464) == 6 * 123_550_464 + 12 * 12 * 768 * 1024


# ------------------------------------------------------------------------------------------------------------------ texts
@pytest.fixture
def library(tmp_path, monkeypatch):
    """A standard library of 45 files, with a folder of tests that is left out, and an empty cache."""
    root = tmp_path / "lib"
    for number in range(45):
        file = root / ("pkg" if number % 2 else "") / f"m{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(f"# {number}\n".encode() + bytes([200, number]) * 20)
    (root / "test").mkdir()
    (root / "test" / "test_m.py").write_text("never read")
    monkeypatch.setattr(texts, "library", lambda: root)
    monkeypatch.setenv("DLOJZ_CACHE", str(tmp_path / "cache"))
    return root


def test_the_text_is_the_librarys_bytes(library):
    sets = {split: texts.Tokens("stdlib", split, 16) for split in ("train", "val")}
    found = []
    for tokens in sets.values():
        whole = np.asarray(tokens.tokens)
        assert whole[0] == texts.SEPARATOR == tokens.separator == 256 and tokens.vocabulary == 257
        found += [bytes(part[1:].astype(np.uint8)) for part in np.split(whole, np.flatnonzero(whole == 256)) if len(part)]
    files = [file.read_bytes() for file in library.rglob("*.py") if file.parent.name != "test"]
    assert sorted(found) == sorted(files)
    assert (np.asarray(sets["val"].tokens) == 256).sum() == 3  # of 45 documents, one in 20


def test_pieces_follow_each_other_and_overlap_by_the_next_token(library):
    tokens = texts.Tokens("stdlib", "train", 16)
    assert len(tokens) == (len(tokens.tokens) - 1) // 16
    for index in (0, 1, len(tokens) - 1):
        piece = tokens[index]
        assert piece.dtype == torch.int64
        assert piece.tolist() == tokens.tokens[16 * index : 16 * index + 17].tolist() and len(piece) == 17
    with pytest.raises(IndexError):
        tokens[len(tokens)]


def test_several_processes_make_the_text_once(library, tmp_path):
    code = "import pathlib, sys; from dlojz.data import texts; texts.library = lambda: pathlib.Path(sys.argv[1])\n" \
           "real = texts._make; texts._make = lambda target: print('made') or real(target); print(texts.folder())"
    many = [subprocess.Popen([sys.executable, "-c", code, str(library)], stdout=subprocess.PIPE, text=True,
                             env=environment(DLOJZ_CACHE=str(tmp_path / "cache"))) for _ in range(2)]
    said = [one.communicate()[0].split() for one in many]
    assert [one.returncode for one in many] == [0, 0]
    assert sum(words.count("made") for words in said) == 1 and said[0][-1] == said[1][-1]
    assert sorted(file.name for file in Path(said[0][-1]).iterdir()) == ["manifest.json", "train.bin", "val.bin"]


def test_what_is_no_set_of_tokens_is_refused_in_one_line(tmp_path, library):
    with pytest.raises(UsageError, match=r"is no set of tokens .*expected train.bin and val.bin"):
        texts.Tokens(tmp_path, "train", 16)
    (tmp_path / photos.MANIFEST).write_text(json.dumps({"vocabulary": 300}))
    (tmp_path / "train.bin").write_bytes(b"\0\0" * 16)
    with pytest.raises(UsageError, match="has 16 tokens, and a row takes 17: use a smaller --length"):
        texts.Tokens(tmp_path, "train", 16)
    tokens = texts.Tokens(tmp_path, "train", 8)
    assert texts.settled(tokens, None, False) == (320, None)
    with pytest.raises(UsageError, match="--mask-documents needs a"):
        texts.settled(tokens, None, True)
    with pytest.raises(UsageError, match="--vocabulary 299 is less than the 300"):
        texts.settled(tokens, 299, False)


@pytest.mark.long
@pytest.mark.alone
def test_a_million_parameters_learn_what_a_bigram_cannot():
    """On bytes of the standard library: below the loss of the best table of pairs, fitted on all of the training text."""
    train, val = (texts.Tokens("stdlib", split, 256) for split in ("train", "val"))
    pairs = np.asarray(train.tokens, np.int64)
    counts = np.bincount(pairs[:-1] * 257 + pairs[1:], minlength=257 * 257).reshape(257, 257) + 0.01
    held = np.asarray(val.tokens, np.int64)
    bigram = -np.log((counts / counts.sum(1, keepdims=True))[held[:-1], held[1:]]).mean()
    torch.manual_seed(0)
    net = lm.Transformer(lm.shape("1m", 320, 256))
    optimizer = torch.optim.AdamW(net.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=STEPS)
    for _ in range(STEPS):
        batch = torch.stack([train[i] for i in torch.randint(len(train), (8,)).tolist()])
        net(batch[:, :-1], batch[:, 1:]).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    with torch.no_grad():
        batch = torch.stack([val[i] for i in range(0, len(val), len(val) // 64)])
        loss = net(batch[:, :-1], batch[:, 1:]).item()
    assert loss < bigram - 0.2, f"{loss:.3f}, and {bigram:.3f} of pairs"


STEPS = 300  # of 2,048 tokens
