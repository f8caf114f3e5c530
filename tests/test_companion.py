"""What people expect of a paper's companion: a citation, versions that are known to work, one configuration, and claims that their tables support."""
import csv
import hashlib
import json
import lzma
import math
import re
import runpy
import tomllib

import pandas as pd
import pytest
import yaml
from packaging.requirements import Requirement
from scipy.stats import binomtest
from statsmodels.stats.multitest import multipletests

import pertnb
from pertnb.learn import robust, segment
from pertnb.measure import excess
from pertnb.report import scoreboard
from pertnb.report.tables import PAPER
from pertnb.sets.sets import packaged_set_card


def table(root, path):
    "The rows of a CSV file as dicts."
    with open(root / path, newline="", encoding="utf-8") as file: return list(csv.DictReader(file))


def value(root, path, row, column):
    "A number of a tidy table, as README rounds it."
    found, = (line["value"] for line in table(root, path) if (line["row"], line["column"]) == (row, column))
    return f"{float(found):.1f}"


@pytest.fixture(scope="module")
def readme(root): return (root / "README.md").read_text(encoding="utf-8")


def count_words(text):
    "Words of Markdown, tables included, without code, formulas and the targets of links."
    text = re.sub(r"<!--.*?-->|```.*?```|\$\$.*?\$\$", "", text, flags=re.S)
    return sum(bool(re.search(r"\w", word)) for word in re.sub(r"\]\([^)]*\)", "]", text).split())


def test_readme_takes_five_minutes(readme):
    assert count_words("# One two\n\n| a | b |\n```sh\nnot this\n```\n[three](four.md)") == 5
    assert count_words(readme) <= 700


METHODS = {"standard": "Standard training", "on corruptions": "CIFAR10-C data augmentation", "points of the set": "CVAE data augmentation",
           "adversarial, in the set": "CVAE adversarial training", "adversarial, and on corruptions": "CVAE adversarial training, real pairs"}
COLUMNS = "Clean", "Perturbed", "OOD", "eps full worst"


def test_readme_table_is_that_of_05(root, readme):
    "Every number, and the numbers of images, seeds and the attack that the text before it names."
    path = "tables/overnight/cifar10c_robustness.csv"
    for name, row in METHODS.items():
        line, = re.findall(rf"^\| {re.escape(name)} \| (.*) \|$", readme, re.M)
        assert line.split(" | ")[:-1] == [value(root, path, row, column) for column in COLUMNS], row
    said = (root / path).with_suffix(".md").read_text(encoding="utf-8")
    attacked, = re.findall(r"AutoPGD at full radius, ([\d,]+) images; one seed", readme)
    assert f"10,000 test images, clean and corrupted, and on {attacked} under attack" in said and "AutoPGD" in said and "seed 0," in said


def test_readme_mean_is_that_of_the_rows(root, readme):
    "The row of two classifiers as one, of their answers: all test images, each corruption as often as another."
    with lzma.open(root / "tables/overnight/rows/mean_cifar10c_cvae_adversarial_pairs.csv.xz", "rt") as file: lines = list(csv.DictReader(file))
    assert len(lines) == 10_000
    shown, many = [], dict(clean=1, perturbed=12, ood=3)
    for kind, n in many.items():
        columns = [c for c in lines[0] if c.startswith(f"{kind} ")]
        assert len(columns) == n
        shown.append(f"{sum(100 * int(line[c]) for line in lines for c in columns) / n / len(lines):.1f}")
    assert f"| mean probabilities of rows 2, 5 | {' | '.join(shown)} | – | – |" in readme


def read_restarts(root, row):
    "{image: the restart that broke it, 0 where none did} of a method, by its row of the table."
    method, = (m for m, name in robust.METHODS.items() if name == row)
    with lzma.open(root / f"tables/overnight/rows/restarts_{method}.csv.xz", "rt") as file: lines = list(csv.DictReader(file))
    assert {line["restarts"] for line in lines} == {"10"}
    return {line["image"]: int(line["broken_by"]) for line in lines}


def test_restarts_are_those_of_the_rows(root, readme):
    "README's last column and the order in 05; what stands after ten restarts stood after one, on as many images."
    path, held = "tables/overnight/cifar10c_robustness.csv", {}
    for name, row in METHODS.items():
        broken_by = read_restarts(root, row)
        share = lambda r: f"{100 * sum(b == 0 or b > r for b in broken_by.values()) / len(broken_by):.1f}"
        assert len(broken_by) == 750 and share(1) == value(root, path, row, "eps full worst")
        assert re.search(rf"^\| {re.escape(name)} \| .* \| {re.escape(share(10))} \|$", readme, re.M), row
        held[row] = {image: b == 0 for image, b in broken_by.items()}
    order = sorted(held.values(), key=lambda h: -sum(h.values()))
    for a, b in zip(order, order[1:]):
        better, worse = count_pairs(a, b)
        assert better > worse and binomtest(better, better + worse).pvalue < .001
    said = (root / "nbs" / "05_cifar10c_robust.ipynb").read_text(encoding="utf-8")
    assert all(f"{100 * sum(h.values()) / len(h):.1f}%" in said for h in order)


def test_readme_compares_what_the_rows_give(root, readme):
    "Worst case at the full radius, image by image: adversarial training against training on corruptions."
    rows = "CVAE adversarial training", "CIFAR10-C data augmentation"
    first, second = ({image: b == 0 for image, b in read_restarts(root, row).items()} for row in rows)
    better, worse = count_pairs(first, second)
    assert binomtest(better, better + worse).pvalue < .001
    said = (f"At full radius, after 10 restarts, adversarial training in the set beats training on corruptions on {better} of {len(first):,} images, "
            f"is beaten on {worse} (p < 0.001). On corruptions it trails by {{ours}} points; the paper's leads by {{theirs}}.")
    at = {row: float(value(root, "tables/overnight/cifar10c_robustness.csv", row, "Perturbed")) for row in rows}
    behind, ahead = at[rows[1]] - at[rows[0]], PAPER["cifar10c_robustness"]
    ahead = ahead[rows[0]]["Perturbed"] - ahead[rows[1]]["Perturbed"]
    assert said.format(ours=f"{behind:.1f}", theirs=f"{ahead:.1f}") in " ".join(readme.split())


def read_attacked(root, method):
    "{(kind, radius): {image: right or wrong}} of the attacked images of a packaged classifier."
    with lzma.open(root / f"tables/overnight/rows/classifier_{method}.csv.xz", "rt") as file: lines = list(csv.DictReader(file))
    columns = [c.split(" ") for c in lines[0] if c.startswith(("robust ", "worst "))]
    return {(kind, float(eps)): {line["image"]: line[f"{kind} learned {eps}"] for line in lines if line[f"{kind} learned {eps}"]}
            for kind, _, eps in columns}


def count_pairs(first, second):
    "Images that the first is right on alone, and that the second is; both have answers on the same images."
    assert first.keys() == second.keys()
    return (sum(a[i] > b[i] for i in a) for a, b in ((first, second), (second, first)))


def at_least(p):
    "A lower bound of a p-value as text: rounded down, or it would be none."
    return f"{math.floor(100 * p) / 100:.2f}"


def least_p_values(rows, others):
    "{kind: the smallest of McNemar's p-values at the quartiles}, image by image."
    quartiles, chance = sorted({eps for _, eps in rows})[:3], {}
    for kind in ("robust", "worst"):
        apart = []
        for eps in quartiles:
            better, worse = count_pairs(rows[kind, eps], others[kind, eps])
            apart.append(binomtest(better, better + worse).pvalue)
        chance[kind] = min(apart)
    return chance


def test_what_the_quartiles_do_not_decide(root, readme):
    "Points of the set, and adversarial training in it, beside training on corruptions, at the radii that the paper attacks at."
    said = " ".join((root / "nbs" / "05_cifar10c_robust.ipynb").read_text(encoding="utf-8").split())
    corruptions, least = read_attacked(root, "cifar10c"), []
    for method in ("cvae_augmentation", "cvae_adversarial"):
        chance = least_p_values(read_attacked(root, method), corruptions)
        assert f"worst case p ≥ {at_least(chance['worst'])}, PGD p ≥ {at_least(chance['robust'])}" in said, method
        least += chance.values()
    assert f"training in the set or on its points can't be told from training on corruptions (p ≥ {at_least(min(least))})" in " ".join(readme.split())


ROWS = "tables/overnight/rows"


def tell_gains(root, first, second, kinds):
    "How much larger a share of its images the first is right on than the second, with a 95% interval over images: [text]."
    answers = [pd.read_csv(root / ROWS / f"{name}.csv.xz", index_col="image") for name in (first, second)]
    told = []
    for kind in kinds:
        means = [100 * at[[c for c in at if c.startswith(f"{kind} ")]].mean(axis=1) for at in answers]
        gain = means[0] - means[1]
        assert len(gain) == 10_000 and gain.notna().all()
        told.append(f"{gain.mean():.1f} ± {1.96 * gain.std() / len(gain)**.5:.1f}")
    return told


def test_05_says_what_the_rows_give(root):
    "Both trainings in the set beside training on corruptions, here and in the paper, and two classifiers as one."
    said = " ".join("".join("".join(cell["source"]) for cell in
                            json.loads((root / "nbs/05_cifar10c_robust.ipynb").read_text(encoding="utf-8"))["cells"]).split())
    names, kinds = [robust.METHODS[m] for m in ("cvae_augmentation", "cvae_adversarial")], ("perturbed", "ood")
    (a, c), (b, d) = (tell_gains(root, "classifier_cifar10c", f"classifier_{m}", kinds) for m in ("cvae_augmentation", "cvae_adversarial"))
    assert f"Here they are less accurate, by {a} and {b}, and by {c} and {d}" in said
    paper, numbers = PAPER["cifar10c_robustness"], []
    for column in ("Perturbed", "OOD"):
        numbers.append([f"{paper[name][column] - paper[METHODS['on corruptions']][column]:.1f}" for name in names])
    (a, b), (c, d) = numbers
    assert f"by {a} and {b} points on the corruptions that were trained on, and by {c} and {d} on the others" in said
    below = [[f"{paper[name][column] - float(value(root, 'tables/overnight/cifar10c_robustness.csv', name, column)):.1f}" for name in names]
             for column in ("Perturbed", "OOD")]
    assert "(by {} and {} points) and on the others (by {} and {})".format(*below[0], *below[1]) in said
    mean, pairs = "mean_cifar10c_cvae_adversarial_pairs", "classifier_cvae_adversarial_pairs"
    gains = tell_gains(root, mean, pairs, ("clean", "perturbed", "ood"))
    assert "{}, {} and {} points more than the better of the two".format(*gains) in said, gains


LOGGED = re.compile(r"^\| (robust|worst) ([\d.]+) \| (\d+) \| [\d.]+ \| [\d.]+ \| (\d+) \| (\d+) \| (\S+) \| (\S+) \|$", re.M)


def test_log_of_further_trainings_agrees_with_its_counts(root):
    "Every p-value under attack is McNemar's of the two counts beside it, and Holm's correction is that of its table."
    tables = [found for part in (root / "logs/taught_overnight.md").read_text(encoding="utf-8").split("\n\n") if (found := LOGGED.findall(part))]
    assert len(tables) >= 15 and {len(table) for table in tables} == {8}
    for table in tables:
        counts = [(int(after), int(before)) for _, _, _, after, before, _, _ in table]
        chance = [binomtest(after, after + before).pvalue if after + before else 1. for after, before in counts]
        assert [f"{p:.2g}" for p in chance] == [line[5] for line in table]
        assert [f"{p:.2g}" for p in multipletests(chance, method="holm")[1]] == [line[6] for line in table]


def test_scoreboard_is_that_of_the_tables(root, tmp_path, monkeypatch):
    "Its numbers and verdicts; when a table was made, and how long that took, may have been told anew since."
    monkeypatch.setenv("PERTNB_RUNS", str(tmp_path)) # no table of a run of one's own
    said = ["label", "row", "column", "paper", "ours", "verdict", "reason", "preset"]
    ours = scoreboard.scoreboard(scoreboard.read_results())[said]
    kept = pd.read_csv(root / "tables" / "quick" / "scoreboard.csv", keep_default_na=False)[said]
    pd.testing.assert_frame_equal(kept, ours, rtol=1e-9)


def test_readme_counts_what_the_scoreboard_has(root, readme):
    board = table(root, "tables/quick/scoreboard.csv")
    count = lambda *verdicts: sum(line["verdict"] in verdicts and line["reason"] != "size of a layer" for line in board)
    run, compared = len(board) - count("not run"), count("agrees", "better", "worse", "differs")
    text = " ".join(readme.split())
    sizes = sum(line["reason"] == "size of a layer" for line in board)
    assert run == len(board)
    assert (f"Of the paper's {len(board)} numbers {run - sizes} were measured, "
            f"{sizes} are layer sizes; {compared} can be compared, {count('agrees')} agree, "
            f"{count('better')} are better, {count('worse')} worse, {count('differs')} neither") in text
    linf = [line["verdict"] for line in board if line["preset"] == "paper"]
    assert f"{linf.count('agrees')} of {len(linf)} numbers agree" in text


def test_readme_says_what_the_packaged_set_holds(root, readme):
    "The counts of the rows in which each image's darkest, lightest and flattest point stand."
    rows = pd.read_csv(root / ROWS / "blank_points.csv.xz")
    held = excess.find_blank(rows).sum()
    log = " ".join((root / "logs" / "blank_overnight.md").read_text(encoding="utf-8").split())
    steps, starts = re.search(r"AutoPGD, (\d+) steps, (\d+) starts", log).groups()
    assert held.black == 0 and f"0 black, {held.white} white, {held.flat} flat." in log
    said = (f"of {len(rows):,} test images none has a black point in its set, {held.white} a white one, {held.flat} a flat one "
            f"([AutoPGD](logs/blank_overnight.md), {steps} steps, {starts} starts)")
    assert said in " ".join(readme.split())


def test_readme_says_what_the_paper_s_set_holds(root, readme):
    line, = (line for line in table(root, "tables/quick/cifar10c_contents.csv") if (line["row"], line["column"]) == ("Packaged set, as in the paper", "Black"))
    assert float(line["value"]) == 100 and f"holds a black image for each of {line['n']} test images" in " ".join(readme.split())


def test_readme_says_what_does_not_transfer(root, readme):
    path = "tables/paper/mnist_linf_robust.csv"
    withstood = value(root, path, "CVAE adversarial training", "Worst true")
    held = round(float(withstood) * 3)
    assert f"{held} of 300 images withstand the worst true noise, after standard training none (p = {.5 ** (held - 1):.2f})" in " ".join(readme.split())
    assert value(root, path, "Standard training", "Worst true") == "0.0"
    assert {line["n"] for line in table(root, path)} == {"300"}


def test_readme_says_what_transfers(root, readme):
    path = "tables/overnight/mnist_rts_nearest_pose_robust.csv"
    rows = "CVAE adversarial training", "True perturbations", "Standard training"
    withstood, truth, standard = (value(root, path, row, "Worst true") for row in rows)
    said = (f"Of 200 rotated digits {withstood}% withstand the worst of 875 poses after adversarial training in a set (our encoders), none after standard training, "
            f"{truth}% after training on true poses")
    assert said in " ".join(readme.split()) and standard == "0.0"
    assert {line["n"] for line in table(root, path)} == {"200"}


def test_readme_says_what_withstands_the_worst_light(root, readme):
    path, column = "tables/overnight/mi_robustness_worst.csv", "eps full"
    adversarial, lights = (value(root, path, row, column) for row in ("CVAE adversarial training", "MI data augmentation"))
    random = [value(root, path, row, "Perturbed") for row in ("CVAE adversarial training", "MI data augmentation")]
    rows = pd.read_csv(root / "tables/overnight/rows/mi_robustness.csv.xz")
    _, _, p = segment.compare_scenes(rows[rows.kind == "perturbed"], "cvae_adversarial", "mi")
    said = (f"(30 images): at the set's worst points {adversarial}% of pixels are right after adversarial training, {lights}% after training on all lights; "
            f"under random lights {random[0]}, {random[1]}% (p = {p:.2f};")
    assert said in " ".join(readme.split())
    assert {line["n"] for line in table(root, path)} == {"30"} # images


def test_table_of_the_packaged_set_is_its_card(root):
    card, path = packaged_set_card(), "tables/overnight/cifar10c_evaluate.csv"
    found = {line["column"]: (float(line["value"]), line["n"], line["commit"]) for line in table(root, path)}
    n, commit = str(card["n_test_images"]), card["measured"]["commit"]
    assert found == {"eps": (card["eps"], n, commit)} | {k: (v["mean"], n, commit) for k, v in card["test"].items()}


def test_citation(root, settings, readme):
    "CITATION.cff and README's BibTeX name one paper; the version is the package's."
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    bibtex = dict(re.findall(r"^  (\w+) += \{(.*)\},?$", re.search(r"```bibtex\n(.*?)```", readme, re.S)[1], re.M))
    paper = cited["preferred-citation"]
    assert paper["title"] == bibtex["title"] and str(paper["year"]) == bibtex["year"] and paper["collection-title"] == bibtex["booktitle"]
    assert " and ".join(f"{a['given-names']} {a['family-names']}" for a in paper["authors"]) == bibtex["author"]
    assert str(cited["version"]) == settings["version"] == pertnb.__version__ and cited["license"] == "Apache-2.0"


def test_launch_buttons_wait_for_an_address(root, settings, readme):
    "One setting, git_url, gives them."
    tool = runpy.run_path(str(root / "tools" / "readme.py"))
    assert tool["badges"]("") == "" and bool(tool["badges"](settings["git_url"])) == ("Open in Colab" in readme)
    assert "/github/someone/pertnb/blob/main/nbs/05_cifar10c_robust.ipynb" in tool["badges"]("https://github.com/someone/pertnb")


def test_nbdev_finds_the_same_settings_in_both_files(root, settings):
    "nbdev 2 reads settings.ini, nbdev 3 [tool.nbdev] of pyproject.toml."
    kept = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["nbdev"]
    as_text = lambda v: " ".join(v) if isinstance(v, list) else str(v)
    assert {k: as_text(v) for k, v in kept.items()} == {k: settings[k] for k in kept}


def test_constraints_fit_the_requirements(root, settings):
    "Each package that is asked for has one version in constraints.txt, which its range allows."
    lines = [line for line in (root / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    pinned = {re.sub(r"[-_.]+", "-", name).lower(): found for name, found in (line.split("==") for line in lines)}
    for key in settings:
        if not key.endswith("requirements") or key == "render_requirements": continue
        for asked in map(Requirement, settings[key].split()):
            name = re.sub(r"[-_.]+", "-", asked.name).lower()
            assert asked.specifier.contains(pinned[name].split("+")[0]), asked


def test_every_card_names_its_weights(root):
    "A card beside each file of weights has the digest of its bytes."
    weights = sorted((root / "pertnb" / "weights").glob("*.safetensors"))
    assert {"cifar10c", "cifar10c_small"} <= {path.stem for path in weights}
    for path in weights:
        card = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        assert card["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest(), path.name


def test_logs_are_those_of_the_cards(run):
    done = run("python", "tools/training_logs.py", "--check")
    assert done.returncode == 0, done.stderr


def test_attacks_are_compared_on_images_that_were_attacked_at_the_same_radii(run, tmp_path):
    both, alone = tmp_path / "both.csv", tmp_path / "alone.csv"
    both.write_text("image,clean none 0.0,worst learned 2.5,worst learned 7.9\n0,1,1,0\n1,1,1,1\n")
    alone.write_text("image,clean none 0.0,worst learned 2.5,worst learned 7.9\n0,1,,1\n1,1,1,1\n")
    done = run("python", "tools/compare_answers.py", str(both), str(alone))
    assert "| worst 7.9 | 1 | 100.0 | 100.0 |" in done.stdout and "| clean | 2 |" in done.stdout
    assert "left out: 1 images" in done.stderr
