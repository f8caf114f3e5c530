"""The logs of the trainings that made the packaged weights, from their cards.

    python tools/training_logs.py          # write logs/sets_overnight.md and logs/classifiers_overnight.md
    python tools/training_logs.py --check  # exit 1 if they differ from what would be written
"""
import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from pertnb.core.paths import list_origin
from pertnb.experiments import presets
from pertnb.experiments.cifar10c_certified import NOISES, name_noise
from pertnb.learn.robust import METHODS
from pertnb.report.tables import format_number, markdown_table
from pertnb.sets.sets import PACKAGED

ROOT = Path(__file__).resolve().parent.parent
WEIGHTS, LOGS = ROOT / "pertnb" / "weights", ROOT / "logs"
DIGITS = dict(training=0, step=0, epoch=1, seconds=0, samples_per_s=0, accuracy=3)


def read_card(name):
    "The card of packaged weights."
    return json.loads((WEIGHTS / f"{name}.json").read_text(encoding="utf-8"))


def tabulate_log(rows):
    "A log's rows as a Markdown table."
    text = lambda column: [format_number(value, DIGITS.get(column.name)) for value in column]
    wide = pd.DataFrame(rows).apply(text).set_index("step")
    return markdown_table(wide.rename(columns=lambda name: name.replace("_per_s", "/s")), "step")


def name_changes(card):
    "The settings of a classifier that are not those of the preset, as -p FIELD VALUE."
    experiment = "cifar10c_certified" if "sigma" in card else "cifar10c_robust"
    usual = asdict(presets.resolve(experiment, dict(preset=card["preset"], data=card["data"])))
    own, meant = (select_own(card["method"], settings) for settings in (card["settings"], usual))
    changed = {k: v for k, v in own.items() if k in meant and meant[k] != v}
    return "".join(f" -p {k} {shlex.quote(json.dumps(v))}" for k, v in changed.items())


def select_own(method, settings):
    "The settings as JSON has them, which knows no tuples, with the further trainings of one method alone."
    settings = {k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()}
    further = [text for text in settings.get("further", ()) if text.startswith(f"{method}:")]
    return settings | (dict(further=further) if "further" in settings else {})


def describe(name, card, command):
    "What was run, on what, and what came of it."
    facts = dict(machine=card["device"], precision=card.get("precision", "float32"), data=card["data"],
                 images=f"{card['n']:,}", seed=card["seed"], commit=card["commit"], seconds=f"{card['seconds']:,.0f}")
    said = list_origin(facts)
    lines = [f"```bash\n{command}\n```", f"{said[0].upper()}{said[1:]}."]
    if note := card.get("note"): lines.append(f"Note: {note}.")
    weights = f"`pertnb/weights/{name}.safetensors`, sha256 {card['sha256']}"
    return [*lines, weights if card["sha256"] else "Its weights are not packaged."]


def log_classifiers():
    "The log of the packaged classifiers."
    lines = ["# Classifiers of CIFAR-10, preset overnight",
             "Made from their cards by `python tools/training_logs.py`. A row per pass: loss and accuracy on the "
             "batches as they were trained on, validation: the loss on 1,000 images set aside (adversarial training: "
             "on 500 of them, attacked), by which the weights that are kept were chosen; where it is missing, and "
             "under noise, those of the last pass are kept. Seconds are of one core or two (*Machine*) of a busy "
             "machine."]
    for method, title in {**METHODS, **{f"noise_{noise}": name_noise(noise) for noise in NOISES}}.items():
        name = f"classifier_{method}"
        if not (WEIGHTS / f"{name}.json").exists(): continue
        card = read_card(name)
        command = f"python tools/package_classifier.py {method}{name_changes(card)}"
        lines += [f"## {title}", *describe(name, card, command), tabulate_log(card["log"])]
    return "\n\n".join(lines) + "\n"


def log_sets():
    "The log of the packaged sets."
    lines = ["# Packaged sets, preset overnight",
             "Made from their cards by `python tools/training_logs.py`. In mending the decoder, excess is how far the "
             "worst points found lie from all real perturbations of their image (mean squared error), and over the "
             "share of them that lies too far. The cards keep some of the rows; the seconds named above each table are "
             "those of all."]
    for name in PACKAGED:
        card = read_card(name)
        tool = "package_lighting.py" if name == "lighting" else f"package_set.py {name}"
        command = f"python tools/{tool}"
        lines += [f"## {name}", *describe(name, card, command), "Training:", tabulate_log(card["log"])]
        if "mending" in card: lines += ["Mending:", tabulate_log(card["mending"])]
    return "\n\n".join(lines) + "\n"


def write_logs(check=False):
    "Write both logs, or say which of them are not up to date."
    for name, text in {"sets_overnight.md": log_sets(), "classifiers_overnight.md": log_classifiers()}.items():
        path = LOGS / name
        if not check: path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"logs/{name} differs from the cards: run python tools/training_logs.py")


if __name__ == "__main__": write_logs(sys.argv[1:] == ["--check"])
