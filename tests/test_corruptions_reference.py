"""The corruptions against images made by the common script, and the properties that all of them share.

The reference is found through $PERTNB_REFERENCE (a folder with severity5.npz), else in ../shared/data/cifar10c_reference beside
the repository. Run with `pytest -s` to see the agreement of each corruption.

The reference is not part of the repository. Where it is absent, our values are compared with those that we had when they agreed with it:
`python tests/test_corruptions_reference.py` writes them, of two built-in photographs, to tests/corruptions.npz.
"""
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from pertnb import corruptions
from pertnb.data.images import load_images

KEPT = Path(__file__).with_name("corruptions.npz")
BESIDE = Path(__file__).resolve().parents[2]/"shared"/"data"/"cifar10c_reference"
REFERENCE = Path(os.environ.get("PERTNB_REFERENCE") or BESIDE)/"severity5.npz"
needs_reference = pytest.mark.skipif(not REFERENCE.is_file(), reason=f"no reference images: set PERTNB_REFERENCE (none at {REFERENCE})")


def images(n, size=(32, 32), seed=0):
    "Smooth random images with some black and white in them."
    g = torch.Generator().manual_seed(seed)
    x = torch.nn.functional.interpolate(torch.rand(n, 3, 6, 6, generator=g)*400 - 70, size, mode="bicubic")
    return x.clamp(0, 255).to(torch.uint8)


def read(path):
    with np.load(path) as file: return dict(file)


@pytest.fixture(scope="module")
def reference(): return read(REFERENCE)


@pytest.fixture(scope="module")
def kept(): return read(KEPT)


def corrupt(name, found, **options):
    "The clean images of a reference at severity 5, with the script's draws, uint8 (N, H, W, 3)."
    x = torch.from_numpy(found["clean"]).permute(0, 3, 1, 2).contiguous()
    y = corruptions.apply(name, x, 5, corruptions.reference_draws(name, 5, found["position"]), **options)
    return y.permute(0, 2, 3, 1).numpy()


def share_within(name, found, **options):
    "Share of values within 1/255 of those of a reference."
    difference = np.abs(corrupt(name, found, **options).astype(int) - found[name])
    within = (difference <= 1).mean()
    print(f"{name}: {within:.3%} of values within 1/255, {(difference == 0).mean():.3%} equal, largest difference {difference.max()}")
    return within


@needs_reference
@pytest.mark.parametrize("name", corruptions.NAMES)
def test_agrees_with_the_common_script(name, reference): assert share_within(name, reference) >= 0.99


@needs_reference
def test_exchanged_pixels_are_not_what_the_script_makes(reference):
    assert share_within("glass_blur", reference, swap="exchange") < 0.95


@pytest.mark.parametrize("name", corruptions.NAMES)
def test_values_are_those_that_agreed(name, kept):
    "Only rounding, as on another processor, may move a value."
    assert share_within(name, kept) >= 0.999


def keep_values():
    "Write KEPT, if the values agree with the common script's."
    reference = read(REFERENCE)
    poor = [name for name in corruptions.NAMES if share_within(name, reference) < 0.99]
    if poor: raise SystemExit(f"not what the common script makes: {', '.join(poor)}")
    photos = load_images("photos", "test")[0][[200, 300]].permute(0, 2, 3, 1).numpy()
    found = dict(clean=photos, position=np.arange(len(photos)))
    np.savez_compressed(KEPT, **found, **{name: corrupt(name, found) for name in corruptions.NAMES})


@pytest.mark.parametrize("size", [(16, 16), (33, 20), (64, 64)])
@pytest.mark.parametrize("name", corruptions.NAMES)
def test_every_severity_of_every_size_without_regard_to_the_batch(name, size):
    x = images(5, size)
    for severity in range(1, 6):
        draws = corruptions.draw(name, severity, 5, torch.Generator().manual_seed(severity), size)
        y = corruptions.apply(name, x, severity, draws)
        assert y.dtype == torch.uint8 and y.shape == x.shape and not torch.equal(x, y)
        assert torch.equal(corruptions.apply(name, x[3:4], severity, {k: v[3:4] for k, v in draws.items()}), y[3:4])
        assert torch.equal(corruptions.apply(name, x, severity, draws, chunk=2), y)


@pytest.mark.parametrize("name", corruptions.NAMES)
def test_same_seed_same_images(name):
    x = images(4)
    first, again = (corruptions.corrupt(name, x, 3, torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(first, again)
    draws = corruptions.draw(name, 3, 4, torch.Generator().manual_seed(7))
    assert torch.equal(first, corruptions.apply(name, x, 3, draws))
    other = corruptions.corrupt(name, x, 3, torch.Generator().manual_seed(8))
    assert torch.equal(first, other) == (not draws) # what draws nothing is the same whatever the seed


@pytest.mark.parametrize("name", corruptions.NAMES)
def test_input_is_left_alone(name):
    x = images(3)
    before, draws = x.clone(), corruptions.draw(name, 5, 3, torch.Generator().manual_seed(0))
    kept = {k: v.clone() for k, v in draws.items()}
    corruptions.apply(name, x, 5, draws)
    assert torch.equal(x, before) and all(torch.equal(draws[k], kept[k]) for k in kept)


@pytest.mark.parametrize("name", corruptions.NAMES)
def test_reference_draws_have_the_shapes_of_draws(name):
    if name == "shot_noise": pytest.skip("its reference draws are NumPy's stream of uniforms")
    ours = corruptions.draw(name, 2, 3, torch.Generator(), (24, 16))
    script = corruptions.reference_draws(name, 2, [1, 2, 3], (24, 16))
    assert {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in script.items()}


@pytest.mark.parametrize("call, words", [
    (lambda x, d: corruptions.apply("rain", x, 5, d), "unknown corruption 'rain': known are gaussian_noise"),
    (lambda x, d: corruptions.apply("snow", x, 7, d), "severity 7 is unknown"),
    (lambda x, d: corruptions.apply("snow", x.float(), 5, d), "got float32"),
    (lambda x, d: corruptions.apply("snow", x.permute(0, 2, 3, 1), 5, d), r"\(N, 3, H, W\)"),
    (lambda x, d: corruptions.apply("snow", x[:2], 5, d), "n=2"),
    (lambda x, d: corruptions.apply("fog", x, 5, d), "draws \\['layer', 'angle'\\]"),
    (lambda x, d: corruptions.corrupt("glass_blur", x, 5, torch.Generator(), swap="both"), '"duplicate" or "exchange"'),
    (lambda x, d: corruptions.draw("frost", 5, 1, torch.Generator(), (300, 300)), "300 x 300 px do not fit"),
])
def test_errors_are_one_clear_line(call, words):
    with pytest.raises(ValueError, match=words) as e: call(images(3), corruptions.draw("snow", 5, 3, torch.Generator()))
    assert "\n" not in str(e.value)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("name", corruptions.NAMES)
def test_gpu_gives_what_the_cpu_gives(name):
    x = images(8)
    for severity in (1, 5):
        draws = corruptions.draw(name, severity, 8, torch.Generator().manual_seed(0))
        cpu, gpu = corruptions.apply(name, x, severity, draws), corruptions.apply(name, x.cuda(), severity, draws)
        assert gpu.is_cuda and ((cpu.int() - gpu.cpu().int()).abs() <= 1).float().mean() > 0.999


@pytest.mark.parametrize("name", [n for n in corruptions.NAMES if n != "frost"])     # frost looks at its draws, which aren't there
def test_no_tensor_is_on_the_wrong_device(name):
    "On tensors that only pretend to be on a GPU, which need none."
    from torch._subclasses.fake_tensor import FakeTensorMode
    draws = corruptions.draw(name, 5, 4, torch.Generator())
    corruptions.apply(name, images(4), 5, draws)          # tables are made and kept outside the pretence
    with FakeTensorMode(allow_non_fake_inputs=True):
        x = torch.empty(4, 3, 32, 32, dtype=torch.uint8, device="cuda")
        pretended = {k: torch.empty(v.shape, dtype=v.dtype) for k, v in draws.items()}
        recipe, c = corruptions.find_recipe(name, 5)
        y = recipe.apply(x, c, **{k: v.to("cuda") for k, v in pretended.items()})
    assert y.device.type == "cuda" and y.shape == x.shape


if __name__ == "__main__": keep_values()
