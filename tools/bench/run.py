"""How fast is the book's encoder? Ratios to others, on this machine: run.py [--quick]

A ratio is time(ours) / time(other) at the paper's base size, smaller is better. Rivals
hold the same weights and must first give the same numbers. Targets are for two CPU
cores; with CUDA the same cases run there as well, without targets. Prints a table and
stores it beside this file: results.md to read, results.json to compare.
"""

import argparse
import json
import multiprocessing
import os
import platform
import sys
import warnings
from importlib import metadata
from pathlib import Path

import torch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent / "code"))

from cases import CASES, missing  # noqa: E402

NOISE = 1.08  # on a busy machine a factor this small is no difference
HEAD = """\
| case | device | against | median | quartiles | rounds | target | |
|---|---|---|---|---|---|---|---|"""


def main():
    options = parse()
    torch.set_num_threads(options.threads)
    print(f"{describe(options)}\n\n{HEAD}")
    rows = []
    for row in measure(options):
        print(line(row), flush=True)
        rows.append(row)
    if options.store:
        store(options, rows)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="", help="run those whose name has this")
    parser.add_argument("--seconds", type=float, default=20, help="time for each case")
    parser.add_argument("--quick", action="store_true", help="2 seconds for each case")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    parser.add_argument("--threads", type=int, default=cores)
    options = parser.parse_args()
    options.seconds = 2 if options.quick else options.seconds
    options.store = not (options.quick or options.cases)  # never half a table
    return options


def measure(options):
    """Run the chosen cases, and yield a row for each comparison."""
    for device in ["cpu"] + ["cuda"] * torch.cuda.is_available():
        for index, case in enumerate(CASES):
            if options.cases not in case.name:
                continue
            if reason := missing(case, device):
                print(f"skipped: {case.name} on {device}, {reason}", file=sys.stderr)
                continue
            for against, figures in in_new_process(index, device, options).items():
                target = case.targets.get(against) if device == "cpu" else None
                row = {"case": case.name, "device": device, "against": against}
                yield row | figures | verdict(case, figures["median"], target)


def in_new_process(index, device, options):
    """Run one case where none ran before: memory kept from it would change the next."""
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(1) as pool:
        return pool.apply(run_case, (index, device, options.seconds, options.threads))


def run_case(index, device, seconds, threads):
    torch.set_num_threads(threads)
    warnings.filterwarnings("ignore", message=".*nested tensors is in prototype")
    return CASES[index].run(device, seconds)


def verdict(case, median, target):
    """Compare with the target; a miss inside the noise is called one, not a pass."""
    if target is None:
        return {"target": None, "verdict": ""}
    excess = target / median if case.is_fraction else median / target
    met = "pass" if excess <= 1 else "within noise" if excess <= NOISE else "miss"
    return {"target": target, "verdict": met}


def line(row):
    low, high = row["quartiles"]
    cells = [row["case"], row["device"], row["against"], f"**{row['median']:.2f}**"]
    cells += [
        f"{low:.2f}-{high:.2f}",
        row["rounds"],
        row["target"] or "",
        row["verdict"],
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def describe(options):
    machine = environment(options)
    return "\n".join(f"- {name}: {value}" for name, value in machine.items())


def environment(options):
    """What a figure depends on, beside the code."""
    capabilities = torch.cpu.get_capabilities()
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return {
        "processor": capabilities.get("cpu_name") or platform.machine(),
        "kernels for": torch.backends.cpu.get_cpu_capability(),
        "threads": options.threads,
        "GPU": gpu,
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "Python": platform.python_version(),
        "seconds for each case": options.seconds,
    }


def version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed, so no BertEncoder"


def store(options, rows):
    stored = {"environment": environment(options), "rows": rows}
    (HERE / "results.json").write_text(json.dumps(stored, indent=1) + "\n")
    table = "\n".join(map(line, rows))
    text = f"# Benchmark\n\n{describe(options)}\n\n{HEAD}\n{table}\n"
    (HERE / "results.md").write_text(text)


if __name__ == "__main__":
    main()
