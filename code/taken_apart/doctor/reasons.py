"""Why a question has no answer, as a diagnosis says it, and what would help."""

NO_BATCH = "there is no batch"
NO_MODULE = "no nn.Module was found behind it"
NO_PADDING = "the inputs have no padding"
NO_TOKENS = "no input looks like tokens"
ONE_SAMPLE = "the batch holds one sample"
QUICK = "left out by quick=True"
TIME_UP = "the time was up"

# Why a question does not arise for a call, or was not wanted: nothing is left open.
DO_NOT_ARISE = {NO_PADDING, QUICK}
ADVICE = {
    NO_PADDING: "give a batch with padding",
    ONE_SAMPLE: "give two samples or more",
    NO_BATCH: "give two samples or more",
    NO_MODULE: "give the module itself",
    TIME_UP: "give fewer samples or a model of fewer layers",
}
