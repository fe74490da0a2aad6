"""The commands of the book: `python code/book COMMAND`, and --help after it."""

import sys
from importlib import import_module
from pathlib import Path

sys.path[0] = str(Path(__file__).parent.parent)  # code/, of which `book` is a part
COMMANDS = {
    "grade": ("book.course.grade", "read which exercises a pile of notebooks solves"),
    "ledger": ("book.claims.ledger", "bring claims.json up to date"),
    "record-controls": ("book.experiments.controls", "run the controls of the echo"),
    "record-game": ("book.pitfalls.game", "train the game's encoders again"),
    "record-match-reader": (
        "book.experiments.match_reader",
        "watch the reader of chapter 8 learn",
    ),
    "record-minimal-encoder": (
        "book.experiments.minimal_encoder",
        "train the fourth article's encoder again",
    ),
    "record-toy-training": (
        "book.experiments.toy_training",
        "train the EncoderLab's encoder from three seeds",
    ),
    "record-trainings": ("book.experiments.trainings", "run the recorded trainings"),
    "record-translations": (
        "book.experiments.wirings",
        "train the translators of chapter 11",
    ),
    "record-widths": (
        "book.experiments.widths",
        "train the EncoderLab's encoder with other widths",
    ),
    "train-mirror": (
        "book.models.mirror_language",
        "train the translator of chapter 11's view",
    ),
    "train-toy": ("book.models.toy_language", "train the encoder of the EncoderLab"),
}


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in COMMANDS:
        lines = (f"  {name:23} {what}" for name, (_, what) in COMMANDS.items())
        text = "\n".join(("usage: python code/book COMMAND ...", *lines))
        sys.exit(text) if name not in ("-h", "--help") else print(text)
    else:
        del sys.argv[1]
        import_module(COMMANDS[name][0]).main()


if __name__ == "__main__":
    main()
