"""Damage to the files of a set and of a classifier: CASES[kind of file, damage](folder) says how it was noticed."""
import json
from functools import partial
from types import SimpleNamespace

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from pertnb import cli, own
from pertnb.cvae import make_cvae
from pertnb.nets import make_classifier
from pertnb.paths import read_tensors, write_tensors
from pertnb.sets import PerturbationSet

TINY = dict(latent=4, width=8, bottleneck=4, blocks=1, features=1, maps=1, patch=2, encoder_patch=4)
NET = dict(name="resnet-8", n_classes=2, width=8)
SOURCE = dict(pairs="", data="photos", function="camera", copies=2, seed=0, n_train=100, n_test=10)


def make_set(path, **sizes):
    torch.manual_seed(0)
    info = dict(source=SOURCE, classes=["cat", "dog"])
    PerturbationSet(make_cvae("cifar10_residual", **TINY | sizes), 2.5, (1, 1.5, 2), info).save(path)


def make_plain_set(path, **sizes):
    "As the packaged set: in half precision, without a digest."
    make_set(path, **sizes)
    tensors, header = read_tensors(path)
    save_file({k: v.half() if v.is_floating_point() else v for k, v in tensors.items()}, path, header)


def use_set(path):
    "Load the set, and find out from what pairs it was learned."
    cli.resolve_source(PerturbationSet.load(path), SimpleNamespace(set=path, function=None, images=None, n=3))


def make_own_classifier(path, **sizes):
    torch.manual_seed(0)
    net = NET | sizes
    own.save_classifier(make_classifier(**net), net, path, method="standard", classes=["cat", "dog"])


KINDS = {"set": (make_set, use_set), "packaged-like set without digest": (make_plain_set, use_set),
         "classifier of own pairs": (make_own_classifier, own.load_classifier)}


def rewrite(path, change):
    "The file with change(its bytes) in their place."
    path.write_bytes(bytes(change(bytearray(path.read_bytes()))))


def flip(data, i):
    data[i] ^= 1
    return data


def flip_value(data):
    "A digit in the header becomes another one."
    return flip(data, data.index(b"cat") + 2)


def flip_brace(data): return flip(data, data.index(b"{"))


def zero_half(data):
    "The second half, which is all tensors, becomes zero."
    half = len(data) // 2
    return data[:half] + bytes(len(data) - half)


def zero_first_half(data): return bytes(len(data) // 2) + data[len(data) // 2:]


def cut(data): return data[:-100]


def write_again(path, write, tensors=None, header=None):
    "Write the file anew with other tensors or another header."
    old_tensors, old_header = read_tensors(path)
    write(path, tensors or old_tensors, header or old_header)


def save_plain(path, tensors, header): save_file(tensors, path, header)


def delete_tensor(path):
    "The header is rebuilt without one tensor; what else it holds stays, the digest among it where there is one."
    with safe_open(path, "pt") as f: header = f.metadata()
    tensors, _ = read_tensors(path)
    tensors.pop(sorted(tensors)[0])
    save_file(tensors, path, header)


def take_other_shapes(path, make, write):
    "Valid, digest and all, but the tensors are those of a wider network."
    other = path.with_name("other.safetensors")
    make(other, width=16)
    write_again(path, write, tensors=read_tensors(other)[0])


def name_function(path, write):
    "Valid, digest and all, but the header names a function that leaves the file `pwned`."
    evil = path.with_name("evil.py")
    evil.write_text(f"open({str(path.with_name('pwned'))!r}, 'w')\ndef f(x): return x\n")
    _, header = read_tensors(path)
    (key, text), = header.items()
    about = json.loads(text)
    if key == "pertnb": about["info"]["source"]["function"] = f"{evil}:f"
    else: about["net"]["name"] = f"{evil}:f"
    write_again(path, write, header={key: json.dumps(about)})


def shapes(make, write): return partial(take_other_shapes, make=make, write=write)


SEEN = {
    "half zeroed": partial(rewrite, change=zero_first_half),
    "truncated": partial(rewrite, change=cut),
    "tensor deleted": delete_tensor,
    "replaced by text": lambda path: path.write_text("hello"),
    "empty": lambda path: path.write_bytes(b""),
    "absent": lambda path: path.unlink()}
DIGESTED = SEEN | {
    "half zeroed": partial(rewrite, change=zero_half),
    "bit flip in tensors": partial(rewrite, change=partial(flip, i=-100)),
    "bit flip in header": partial(rewrite, change=flip_value),
    "header naming a function": partial(name_function, write=write_tensors)}
DAMAGES = {
    "set": DIGESTED | {
        "replaced by another shape": shapes(make_set, write_tensors),
        "replaced by a classifier": make_own_classifier},
    "packaged-like set without digest": SEEN | {
        "bit flip in header": partial(rewrite, change=flip_brace),
        "header naming a function": partial(name_function, write=save_plain),
        "replaced by another shape": shapes(make_plain_set, save_plain),
        "replaced by a classifier": make_own_classifier},
    "classifier of own pairs": DIGESTED | {
        "replaced by another shape": shapes(make_own_classifier, write_tensors),
        "replaced by a set": make_set}}


def judge(kind, damage, folder):
    "Make a file, damage it and use it: 'refused' where that ends in one line that names it; AssertionError otherwise."
    make, use = KINDS[kind]
    path = folder / "file.safetensors"
    make(path)
    use(path)
    DAMAGES[kind][damage](path)
    try: use(path)
    except (ValueError, OSError) as error: said = str(error)
    else: raise AssertionError(f"{kind}, {damage}: passed in silence")
    assert str(path) in said and "\n" not in said and len(said) < 500, said
    assert not (folder / "pwned").exists(), f"{kind}, {damage}: the function was run"
    return "refused"


CASES = {(kind, damage): partial(judge, kind, damage) for kind, damages in DAMAGES.items() for damage in damages}
