"""Ship the first lighting set of preset `overnight`: write it with its card to pertnb/weights/lighting.safetensors.

    pertnb stages --section mi --preset overnight --stage render,"train MIP5"
    python tools/package_lighting.py

What was trained before is read; what ships, its weights rounded to half precision, is measured again.
"""
import hashlib
import json
from dataclasses import asdict

from package_set import say, say_metrics, write_card # beside this file
from training_logs import write_logs

from pertnb.core.paths import package_root, provenance
from pertnb.experiments import presets
from pertnb.experiments.lighting_certified import Lighting
from pertnb.measure import excess
from pertnb.sets import sets

PATH = package_root() / "weights" / "lighting.safetensors"


class PackagedLights(Lighting):
    "The section, with the packaged set in place of that of the first stage."
    def set_of(self, row): return sets.load_set(PATH)


def measure(section):
    "The card's numbers: the six metrics on pairs of lights of test scenes, and what the set holds beside."
    rows, searched = section.judge_set(section.first), section.extremes(section.first).rows
    test = say_metrics(rows)
    contents = dict(inside=float((rows.norm <= rows.eps).mean()), scenes=len(searched))
    contents |= {k: float(v) for k, v in excess.summarise_extremes(searched).items()}
    return dict(test=test, contents=say("contents", contents), n_test_pairs=len(rows))


def main():
    settings = presets.resolve("mi_cvae", dict(preset="overnight", data="mi_rendered"))
    section = PackagedLights(settings, "cpu")
    pset, log = section.learn(section.first)
    mending, train = log.attrs["mending"], section.at_stage("train", section.first)
    seconds = dict(training=float(log.seconds.sum()), mending=float(mending.seconds.sum()))
    source = provenance("overnight", section.data, section.seed, len(train), sum(seconds.values()), "cpu")
    last = {k: float(log.iloc[-1][k]) for k in ("mse", "kl")}
    pset.info = pset.info | source | dict(mip=settings.mip, last=last, steps=int(log.iloc[-1].step))
    pset.save(PATH, half=True)
    about = dict(eps=pset.eps, percentiles=pset.percentiles, settings=asdict(settings), seconds_of=seconds,
                 scenes=train.names[0].removesuffix("_000") + "_*",
                 sha256=hashlib.sha256(PATH.read_bytes()).hexdigest())
    shown = log.iloc[::max(1, len(log) // 40)].round(6).to_dict("records")
    logs = dict(mending=mending.round(6).to_dict("records"), log=shown)
    write_card(PATH, source | about | measure(section) | logs)
    write_logs()
    print(f"eps {pset.eps:.2f}, {PATH.stat().st_size / 1e6:.1f} MB: {PATH}")


if __name__ == "__main__": main()
