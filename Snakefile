# The whole paper as a graph: one rule an experiment notebook.
#
#   snakemake -n --config preset=smoke      what would run, in order
#   snakemake -j 2 --config preset=smoke    run it, two notebooks at a time; finished ones are not run again
#   snakemake -j 2 05_cifar10c_robust       one notebook and what it needs
#   snakemake --profile profiles/slurm --config preset=paper threads=8
#
# What else --config holds, such as seed=1, is handed to every notebook of the run. Executed notebooks, and what each took (seconds, memory, CPU time),
# go to runs/notebooks/PRESET; figures and tables where they always go. A notebook is run again when it, or one that it needs, has changed. The package
# itself is no input: trained runs are named by the code that decided them.
import os
from pathlib import Path
from pertnb.core.names import PRESETS

# what a notebook takes from others: trained runs, corrupted images, and for the summary their tables
NEEDS = {
    "04_cifar10c_cvae": ["03_cifar10c_corruptions"],
    "05_cifar10c_robust": ["04_cifar10c_cvae"],
    "06_cifar10c_certified": ["04_cifar10c_cvae"],
    "08_mi_robust": ["07_mi_cvae"],
    "09_mi_certified": ["08_mi_robust"],
    "14_explorer": ["05_cifar10c_robust"],
    "15_machines": ["10_summary"],
}
TIMED = ["12_benchmarks"]                  # runs alone, on all cores that there are
READERS = ["10_summary", "15_machines"]    # read what all others wrote
ON_A_GPU = PRESETS[-2:]                    # the two longest presets

NOTEBOOKS = sorted(path.stem for path in Path(workflow.basedir, "nbs").glob("[0-9][0-9]_*.ipynb"))
NEEDS = {name: [n for n in NEEDS.get(name, []) if n in NOTEBOOKS] for name in NOTEBOOKS}
for name in set(READERS) & set(NOTEBOOKS): NEEDS[name] += [n for n in NOTEBOOKS if n not in READERS and n not in NEEDS[name]]

PRESET = config.get("preset", "quick")
THREADS = int(config.get("threads", 1))    # of each notebook
RUNS = os.environ.get("PERTNB_RUNS") or "runs"
GIVEN = " ".join(f"-p {k} {v}" for k, v in config.items() if k not in ("preset", "threads"))
executed = lambda name: f"{RUNS}/notebooks/{PRESET}/{name}.ipynb"

if PRESET not in PRESETS: raise ValueError(f"unknown preset {PRESET!r}: known are {', '.join(PRESETS)}")
workdir: workflow.basedir


rule all:
    default_target: True
    input: [executed(name) for name in NOTEBOOKS]


for notebook in NOTEBOOKS:
    rule:
        name: notebook
        input:
            notebook=f"nbs/{notebook}.ipynb",
            needs=[executed(n) for n in NEEDS[notebook]],
        output: executed(notebook)
        log: f"{RUNS}/notebooks/{PRESET}/{notebook}.log"
        benchmark: f"{RUNS}/notebooks/{PRESET}/{notebook}.tsv"
        threads: (workflow.cores or 1) if notebook in TIMED else THREADS
        priority: sum(notebook in needed for name, needed in NEEDS.items() if name not in READERS)
        resources: gpu=int(PRESET in ON_A_GPU and notebook not in READERS + TIMED)
        params: preset=PRESET, given=GIVEN
        shell: "OMP_NUM_THREADS={threads} papermill --no-progress-bar {input.notebook} {output} -p preset {params.preset} {params.given} > {log} 2>&1"
