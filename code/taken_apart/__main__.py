"""`taken-apart trace|diagnose path.py:build`: the tools on a reader's own module."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

if not __package__:  # run as `python code/taken_apart`
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from taken_apart.target import EXAMPLE, Target, built


def run_trace(target: Target, options: argparse.Namespace) -> int:
    from taken_apart import trace  # here, so that --help does not wait for PyTorch

    ran = trace(target.module, *target.inputs, inside=options.inside, **target.kwargs)
    print(ran)
    return 1 if ran.error is not None else 0


def run_diagnose(target: Target, options: argparse.Namespace) -> int:
    from taken_apart import diagnose

    found = diagnose(
        target.module, *target.inputs, quick=options.quick, **target.kwargs
    )
    if found.misuse:
        print(f"taken-apart: {found.misuse}\n\n{EXAMPLE}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(found.to_dict(), indent=2))
    elif options.github:
        print(*found.annotations(), found.summary(), sep="\n")
    else:
        print(found)
    return 1 if found.faults else 0 if found.complete else 3


COMMANDS = {  # how it runs, what it does, and its options
    "trace": (
        run_trace,
        "show what ran, line by line, with the names of axes",
        {"--inside": "keep torch's encoder off its fast path"},
    ),
    "diagnose": (
        run_diagnose,
        "say what is wrong, where, and on what evidence",
        {
            "--quick": "leave out the costlier probes",
            "--json": "print the diagnosis as JSON",
            "--github": "print annotations for a workflow of GitHub's",
        },
    ),
}


def parser() -> argparse.ArgumentParser:
    about = "Examine the module that a function of a Python file builds."
    status = "exit status: 0 nothing found, 1 a fault, 2 there is nothing to examine, "
    status += "3 nothing found, but not all was asked"
    form = argparse.RawDescriptionHelpFormatter
    options = argparse.ArgumentParser("taken-apart", description=about, epilog=status)
    commands = options.add_subparsers(required=True, metavar="COMMAND")
    for name, (run, what, flags) in COMMANDS.items():
        command = commands.add_parser(
            name, help=what, epilog=EXAMPLE, formatter_class=form
        )
        command.add_argument("target", help="path/to/file.py:build")
        for flag, meaning in flags.items():
            command.add_argument(flag, action="store_true", help=meaning)
        command.set_defaults(run=run)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Trace or diagnose what a file builds.

    Returns 0 if nothing was found, 1 for a fault, 2 for misuse, 3 if nothing was found
    and not all was asked.
    """
    form = parser()
    options = form.parse_args(arguments)
    if vars(options).get("json") and vars(options).get("github"):
        form.error("--json and --github each fill the output: choose one")
    try:
        target = built(options.target)
    except ValueError as error:
        print(f"taken-apart: {error}\n\n{EXAMPLE}", file=sys.stderr)
        return 2
    return options.run(target, options)


if __name__ == "__main__":
    sys.exit(main())
