"""Exhibits of train and eval mode."""

from encoder import FeedForward, TransformerEncoder
from torch.nn import functional

from .catalogue import pitfall


@pitfall(
    kind="train/eval and fast path",
    sign="answers differ between calls or modes",
    symptom="Two calls in eval mode differ",
    diagnosis="largest(outputs(model, ids), outputs(model, ids)) == 0",
    fix="nn.Dropout, or training=self.training",
    where="rixwew/pytorch-fm#21, colehurwitz/IBL_MtM_model PR#13",
)
class DropoutNeverOff(FeedForward):
    """functional.dropout drops by default, whatever the module's mode."""

    def forward(self, x):
        return self.down(functional.dropout(self.activation(self.up(x)), 0.1))


@pitfall(
    kind="train/eval and fast path",
    sign="it learns, but worse or something else",
    symptom="Training goes on without dropout after the first call",
    diagnosis="(model.train()(ids), model.training)[1]",
    fix="let the caller choose the mode",
    where="no number known: an eval() left in forward after debugging",
)
class EvalInForward(TransformerEncoder):
    """forward switches the model to eval, and nobody switches it back."""

    def forward(self, token_ids, key_padding_mask=None, need_weights=False):
        self.eval()
        return super().forward(token_ids, key_padding_mask, need_weights)
