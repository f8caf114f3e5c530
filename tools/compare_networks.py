"""What another network gives at the same passes: trainings on corruptions from nothing, judged on the same images.

    python tools/compare_networks.py NETWORK:PASSES NETWORK:PASSES [...] [--test 10000]

The recipe is that of tools/learning_curve.py. Each network is compared with the first one; what was trained before is
read. The table is printed; logs/taught_overnight.md has it.
"""
import argparse

import pandas as pd

from learning_curve import METHOD, measure, parse_training, train  # beside this file
from pertnb.core.paths import list_origin, provenance
from pertnb.experiments.cifar10c_robust import KINDS
from pertnb.models.nets import count_parameters
from pertnb.report.tables import markdown_table


def share_right(rows):
    "Share of right answers per kind (rows) and test image (columns): of its corruptions, if it has several."
    return rows.pivot_table(index="kind", columns="image", values="correct")


def tell(held, first):
    "Accuracies (%) by kind; if this isn't the first network, with the difference and its 95% interval over images."
    said = {}
    for kind, name in KINDS.items():
        change = held.loc[kind] - first.loc[kind]
        more = f" ({100 * change.mean():+.1f} ± {196 * change.sem():.1f})" if held is not first else ""
        said[name] = f"{100 * held.loc[kind].mean():.1f}{more}"
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainings", nargs="+", metavar="NETWORK:PASSES")
    parser.add_argument("--test", type=int, default=10_000)
    args, lines, first = parser.parse_args(), [], None
    for net, (passes, *_) in map(parse_training, args.trainings):
        section, model, log = train(net, passes)
        held = share_right(measure(section, model, args.test))
        first = held if first is None else first
        size, seconds = f"{count_parameters(model) / 1e6:.2f}", f"{log.attrs['seconds']:,.0f}"
        line = {"network": net, "weights (million)": size, "passes": f"{passes:g}", "seconds": seconds}
        lines.append(line | tell(held, first))
        print(lines[-1], flush=True)
    source = provenance("overnight", "cifar10", section.seed, args.test, None, "cpu")
    print(list_origin(source), f"method {METHOD}", sep=", ")
    print(markdown_table(pd.DataFrame(lines).set_index("network"), "network"))


if __name__ == "__main__": main()
