"""What the text of an exercise names still works when the whole page has run."""

import nbformat
import pytest
from common import ROOT
from nbclient import NotebookClient

# Statements that follow the hints of the exercises, by page.
PROMISES = {
    "05_layer_norm": """
        assert input_gradient(lambda out: (out * push).sum()) > 1
        assert NoNorm(64, 4, 256, 0.0)(torch.randn(1, 3, 64))[0].shape == (1, 3, 64)
    """,
    "06_masks": """
        assert drift(5, 13) < 1e-5 < 0.1 < drift(5, 13, mask=False)
        front = torch.arange(12)[None] < 5
        words = encoder.embedding(sentence)
        padded = torch.cat((torch.randn(1, 5, 32), words), dim=1)
        for part in encoder.layers:
            words, padded = part(words)[0], part(padded, front)[0]
        assert torch.allclose(words, padded[:, 5:], atol=1e-5)
        assert influence(lambda x: attention(x, x, x)[0], 5)
        last = torch.tensor([[False, False, True]])
        assert (mean_of_words(torch.ones(1, 3, 4), last) == 1).all()
    """,
    "07_encoder": """
        assert torch.allclose(
            ours(x, padding)[0][~padding],
            layers["copied"](x, padding)[0][~padding],
        )
        assert len({id(next(layer.parameters())) for layer in stacks["six calls"]}) == 6
    """,
}


@pytest.mark.parametrize("page", PROMISES)
def test_the_named_helpers_work_at_the_end_of_the_page(page):
    notebook = nbformat.read(ROOT / f"chapters/{page}.ipynb", as_version=4)
    lines = PROMISES[page].strip("\n").splitlines()
    source = "\n".join(line.removeprefix(" " * 8) for line in lines)
    notebook.cells.append(nbformat.v4.new_code_cell(source))
    options = {"timeout": 300, "kernel_name": "python3"}
    NotebookClient(notebook, **options, resources={}).execute(cwd=ROOT / "chapters")
