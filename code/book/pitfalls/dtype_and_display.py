"""Exhibits of data types, and of what a forward writes to the page."""

from encoder import EncoderLayer, SinusoidalPositions

from .catalogue import pitfall
from .parts import Steps


@pitfall(
    kind="dtype / compile",
    sign="it raises an error",
    symptom="masked_fill wants a bool mask; old listings write .byte()",
    diagnosis="model(ids, padding)[0].isfinite().all()",
    fix=".bool()",
    where="kimiyoung/transformer-xl#115, huggingface/transformers PR#21384",
)
class MaskOfBytes(Steps):
    """Masks of integers were allowed once."""

    def blocked(self, padding):
        return super().blocked(padding).byte()


@pitfall(
    kind="dtype / compile",
    sign="it raises an error",
    symptom="It runs in float32 alone",
    diagnosis="model.double()(ids)[0].dtype == model.embedding.weight.dtype",
    fix="make new tensors like old ones: .to(x.dtype)",
    where="no number known: .float() where .to(x) was meant",
)
class FloatByDecree(SinusoidalPositions):
    """A type is written down where the input's should be taken."""

    def forward(self, x):
        return (x + self.table[: x.shape[1]]).float()


@pitfall(
    kind="notebook / display",
    sign="answers differ between calls or modes",
    symptom="Every call writes to the page; stored outputs never come back",
    diagnosis="printed(lambda: model(ids)) == ''",
    fix="trace(model, ids): shapes without a print in forward",
    where="the helper print_shape, left in; computationalmodelling/nbval#204",
)
class ShapesPrinted(EncoderLayer):
    """A print that was for debugging stays in forward."""

    def forward(self, x, key_padding_mask=None, need_weights=False):
        print("layer", tuple(x.shape))
        return super().forward(x, key_padding_mask, need_weights)
