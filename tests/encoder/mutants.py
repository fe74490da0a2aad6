"""One-line faults of `encoder.py`, each of which the encoder's tests must notice.

A block names a mutant, then gives a text of the file (-), which must occur there
exactly once, and the text to put in its place (+). Most are faults met in real
encoders; the others each undo one decision of ours.
"""

from typing import NamedTuple


class Mutant(NamedTuple):
    name: str
    before: str
    after: str
    reason: str  # why no call can tell it from the original; empty for a real fault


def parse(text):
    """Read the blocks below; those that begin with # are headings."""
    blocks = [block.splitlines() for block in text.strip().split("\n\n")]
    return [
        Mutant(block[0], *(marked(block, sign) for sign in "-+="))
        for block in blocks
        if not block[0].startswith("#")
    ]


def marked(block, sign):
    """Return the lines of a block that carry this sign, without it."""
    return "\n".join(line[2:] for line in block if line.startswith(f"{sign} "))


MUTANTS = parse("""
# Positions

base 1000 in place of 10000
- / 10000 **
+ / 1000 **

sine and cosine swapped
- angle.sin(), angle.cos()
+ angle.cos(), angle.sin()

sines first, cosines after them
- dim=-1).flatten(1)[:
+ dim=1).flatten(1)[:

every column with its own angle
- torch.arange(0, d_model, 2, dtype
+ torch.arange(0, d_model, dtype

positions count from 1
- position = torch.arange(n_positions, dtype=torch.float64)
+ position = torch.arange(1, n_positions + 1, dtype=torch.float64)

positions divided twice
- / 10000 ** (even_column / d_model)
+ / 10000 ** (2 * even_column / d_model)

angles in float32
- even_column = torch.arange(0, d_model, 2, dtype=torch.float64)
+ even_column = torch.arange(0, d_model, 2, dtype=torch.float32)

odd widths end in error
- .flatten(1)[:, :d_model]
+ .flatten(1).view(n_positions, d_model)

positions along the batch axis
- self.table[: x.shape[1]]
+ self.table[: x.shape[0], None]

one position for all
- self.table[: x.shape[1]]
+ self.table[x.shape[1] - 1]

positions not added
- return x + self.table[: x.shape[1]]
+ return x

positions added twice
- return x + self.table
+ return x + 2 * self.table

positions in place of tokens
- return x + self.table[: x.shape[1]]
+ return 0 * x + self.table[: x.shape[1]]

table left behind by moves
- self.register_buffer("table", table, persistent=False)
+ self.table = table

table saved in the state dict
- persistent=False
+ persistent=True

table cast and not recomputed
- self.table = sinusoidal_positions(*self.table.shape).to(self.table)
+ pass

table always float32
- .to(torch.get_default_dtype())
+ .float()

moves return nothing
- self.table = sinusoidal_positions(*self.table.shape).to(self.table)
-         return self
+ self.table = sinusoidal_positions(*self.table.shape).to(self.table)

# Attention

scale missing
- / math.sqrt(query.shape[-1])

scale inverted
- / math.sqrt(query.shape[-1])
+ * math.sqrt(query.shape[-1])

scale without the root
- / math.sqrt(query.shape[-1])
+ / query.shape[-1]

scale by the number of keys
- / math.sqrt(query.shape[-1])
+ / math.sqrt(key.shape[-2])

scale by sqrt(d_model)
- / math.sqrt(query.shape[-1])
+ / math.sqrt(query.shape[1] * query.shape[-1])

softmax over queries
- scores.softmax(dim=-1)
+ scores.softmax(dim=-2)

softmax over heads
- scores.softmax(dim=-1)
+ scores.softmax(dim=1)

softmax over the batch
- scores.softmax(dim=-1)
+ scores.softmax(dim=0)

softmax twice
- scores.softmax(dim=-1)
+ scores.softmax(dim=-1).softmax(dim=-1)

sigmoid in place of softmax
- scores.softmax(dim=-1)
+ scores.sigmoid()

no softmax
- weights = scores.softmax(dim=-1)
+ weights = scores

mask after softmax
- scores = scores.masked_fill(blocked, torch.finfo(scores.dtype).min)
+ pass

mask inverted
- scores.masked_fill(blocked,
+ scores.masked_fill(~blocked,

mask on the query's row
- scores.masked_fill(blocked,
+ scores.masked_fill(blocked.transpose(-2, -1),

mask adds 1 in place of hiding
- scores.masked_fill(blocked, torch.finfo(scores.dtype).min)
+ scores + blocked

fill with -inf
- torch.finfo(scores.dtype).min
+ -math.inf

fill with -1e9
- torch.finfo(scores.dtype).min
+ -1e9

fill with half the lowest number
- torch.finfo(scores.dtype).min)
+ torch.finfo(scores.dtype).min / 2)

fill with -100
- torch.finfo(scores.dtype).min
+ -100.0

fill with the smallest positive number
- torch.finfo(scores.dtype).min
+ torch.finfo(scores.dtype).tiny

dead rows share alike
- weights = weights.masked_fill(blocked, 0.0)
+ pass

dropout on scores
- functional.dropout(weights, dropout) @ value
+ functional.dropout(scores, dropout).softmax(-1) @ value

dropout behind the sum
- functional.dropout(weights, dropout) @ value
+ functional.dropout(weights @ value, dropout)

dropout of weights missing
- functional.dropout(weights, dropout) @ value
+ weights @ value

weights returned after dropout
- return functional.dropout(weights, dropout) @ value, weights
+ weights = functional.dropout(weights, dropout)
+     return weights @ value, weights

scores returned in place of weights
- @ value, weights
+ @ value, scores

# Heads

divisor not checked
- if n_heads < 1 or d_model % n_heads:
+ if n_heads < 1:

no heads not checked
- if n_heads < 1 or d_model % n_heads:
+ if d_model % n_heads:

key map shared with query
- self.query, self.key = linear(d_model, d_model), linear(d_model, d_model)
+ self.query = self.key = linear(d_model, d_model)

keys from the query map
- self.split_heads(self.key(x))
+ self.split_heads(self.query(x))

values from the key map
- self.split_heads(self.value(x))
+ self.split_heads(self.key(x))

values not projected
- self.split_heads(self.value(x))
+ self.split_heads(x)

output map missing
- return self.output(context.transpose(1, 2).flatten(2)), weights
+ return context.transpose(1, 2).flatten(2), weights

transpose missing in the merge
- context.transpose(1, 2).flatten(2)
+ context.reshape(x.shape)

heads interleaved in the merge
- context.transpose(1, 2).flatten(2)
+ context.permute(0, 2, 3, 1).flatten(2)

heads interleaved in the split
- x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
+ x.unflatten(-1, (-1, self.n_heads)).movedim(-1, 1)

heads cut across tokens
- x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
+ x.reshape(x.shape[0], self.n_heads, x.shape[1], -1)

heads left behind tokens
- x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
+ x.unflatten(-1, (self.n_heads, -1))

padding blocks queries
- key_padding_mask[:, None, None]
+ key_padding_mask[:, None, :, None]

padding blocks queries and keys
- key_padding_mask[:, None, None]
+ key_padding_mask[:, None, None] | key_padding_mask[:, None, :, None]

padding ignored
- blocked = None if key_padding_mask is None else key_padding_mask[:, None, None]
+ blocked = None

hidden state not checked
- check_hidden(x, self.d_model)
+ pass

padding not checked
- check_padding(key_padding_mask, x)
+ pass

dropout active in evaluation
- self.dropout if self.training else 0.0
+ self.dropout

dropout in evaluation only
- self.dropout if self.training else 0.0
+ 0.0 if self.training else self.dropout

dropout only beside weights
- if need_weights or dropout:
+ if need_weights:

fused form never used
- if need_weights or dropout:
+ if True:

weights returned unasked
- return context, weights if need_weights else None
+ return context, weights

fused form with the mask inverted
- else ~blocked
+ else blocked

fused form without a mask
- (query, key, value, visible), None
+ (query, key, value), None

fused form causal
- (query, key, value, visible), None
+ (query, key, value, is_causal=visible is None), None

fused form with query and key swapped
- scaled_dot_product_attention(query, key,
+ scaled_dot_product_attention(key, query,

# Feed-forward

activation missing
- self.dropout(self.activation(self.up(x)))
+ self.dropout(self.up(x))

activation behind the second map
- self.down(self.dropout(self.activation(self.up(x))))
+ self.activation(self.down(self.dropout(self.up(x))))

activation always relu
- nn.Dropout(dropout), activation
+ nn.Dropout(dropout), relu

feed-forward dropout missing
- self.down(self.dropout(self.activation(self.up(x))))
+ self.down(self.activation(self.up(x)))

feed-forward dropout behind both maps
- self.down(self.dropout(self.activation(self.up(x))))
+ self.dropout(self.down(self.activation(self.up(x))))

# Layer

one head, whatever is asked
- MultiHeadAttention(d_model, n_heads, dropout)
+ MultiHeadAttention(d_model, 1, dropout)

attention without dropout
- MultiHeadAttention(d_model, n_heads, dropout)
+ MultiHeadAttention(d_model, n_heads)

feed-forward without dropout
- FeedForward(d_model, d_ff, dropout, activation)
+ FeedForward(d_model, d_ff, 0.0, activation)

layer ignores its activation
- FeedForward(d_model, d_ff, dropout, activation)
+ FeedForward(d_model, d_ff, dropout)

one norm for both places
- self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
+ self.norm1 = self.norm2 = nn.LayerNorm(d_model)

norm with another eps
- self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
+ self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model, eps=1e-6)

norm without scale and shift
- self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
+ self.norm1 = nn.LayerNorm(d_model)
+         self.norm2 = nn.LayerNorm(d_model, elementwise_affine=False)

norm over the batch and not the token
- inside = self.norm1(x) if
+ inside = self.norm1((x - x.mean(0)) / (x.std(0, False) + 1e-5)) if

norm over all tokens together
- x = self.norm1(x)
+ x = nn.functional.layer_norm(x, x.shape[1:]) * self.norm1.weight + self.norm1.bias

norm orders swapped
- nn.Dropout(dropout), norm_first
+ nn.Dropout(dropout), not norm_first

Pre-LN attention without its norm
- inside = self.norm1(x) if self.norm_first else x
+ inside = x

Post-LN with a norm before, too
- inside = self.norm1(x) if self.norm_first else x
+ inside = self.norm1(x)

layer forgets the padding
- self.attention(inside, key_padding_mask, need_weights)
+ self.attention(inside, None, need_weights)

layer never asks for weights
- self.attention(inside, key_padding_mask, need_weights)
+ self.attention(inside, key_padding_mask, False)

attention residual missing
- x = x + self.dropout(mixed)
+ x = self.dropout(mixed)

attention residual doubled
- x = x + self.dropout(mixed)
+ x = 2 * x + self.dropout(mixed)

attention residual from the normed x
- x = x + self.dropout(mixed)
+ x = inside + self.dropout(mixed)

attention branch without dropout
- x = x + self.dropout(mixed)
+ x = x + mixed

dropout on the residual, too
- x = x + self.dropout(mixed)
+ x = self.dropout(x + mixed)

Pre-LN residual missing
- return x + self.dropout(self.feed_forward(self.norm2(x))), weights
+ return self.dropout(self.feed_forward(self.norm2(x))), weights

Pre-LN residual doubled
- return x + self.dropout(self.feed_forward(self.norm2(x))), weights
+ return x + x + self.dropout(self.feed_forward(self.norm2(x))), weights

Pre-LN feed-forward without its norm
- self.feed_forward(self.norm2(x))
+ self.feed_forward(x)

Pre-LN uses the first norm twice
- self.feed_forward(self.norm2(x))
+ self.feed_forward(self.norm1(x))

Pre-LN feed-forward branch without dropout
- return x + self.dropout(self.feed_forward(self.norm2(x))), weights
+ return x + self.feed_forward(self.norm2(x)), weights

Post-LN first norm missing
- x = self.norm1(x)
+ pass

Post-LN second norm missing
- return self.norm2(x + self.dropout(self.feed_forward(x))), weights
+ return x + self.dropout(self.feed_forward(x)), weights

Post-LN residual missing
- self.norm2(x + self.dropout(self.feed_forward(x)))
+ self.norm2(self.dropout(self.feed_forward(x)))

Post-LN residual doubled
- self.norm2(x + self.dropout(self.feed_forward(x)))
+ self.norm2(2 * x + self.dropout(self.feed_forward(x)))

Post-LN residual outside the norm
- self.norm2(x + self.dropout(self.feed_forward(x)))
+ x + self.norm2(self.dropout(self.feed_forward(x)))

Post-LN uses the first norm twice
- self.norm2(x + self.dropout(self.feed_forward(x)))
+ self.norm1(x + self.dropout(self.feed_forward(x)))

Post-LN feed-forward branch without dropout
- self.norm2(x + self.dropout(self.feed_forward(x)))
+ self.norm2(x + self.feed_forward(x))

# From torch

a layer without biases is half taken over
- if packed.in_proj_bias is None:
+ if False:

dropout not taken over
- cls(*sizes, layer.dropout.p,
+ cls(*sizes, 0.1,

norm order not taken over
- order, activation = layer.norm_first, deepcopy(layer.activation)
+ order, activation = False, deepcopy(layer.activation)

activation not taken over
- layer.dropout.p, order, activation)
+ layer.dropout.p, order)

dtype not taken over
- ours.to(packed.in_proj_weight).train(layer.training)
+ ours.train(layer.training)

training mode not taken over
- ours.to(packed.in_proj_weight).train(layer.training)
+ ours.to(packed.in_proj_weight)

eps not taken over
- ours.norm1, ours.norm2 = deepcopy(layer.norm1), deepcopy(layer.norm2)
+ ours.norm1.load_state_dict(layer.norm1.state_dict())
+         ours.norm2.load_state_dict(layer.norm2.state_dict())

norms taken over in the wrong order
- ours.norm1, ours.norm2 = deepcopy
+ ours.norm2, ours.norm1 = deepcopy

norms shared with torch's layer
- ours.norm1, ours.norm2 = deepcopy(layer.norm1), deepcopy(layer.norm2)
+ ours.norm1, ours.norm2 = layer.norm1, layer.norm2

first map shared with torch's layer
- deepcopy(layer.linear1)
+ layer.linear1

second map not taken over
- ours.feed_forward.down = deepcopy(layer.linear2)
+ pass

output map not taken over
- ours.attention.output.load_state_dict(packed.out_proj.state_dict())
+ pass

packed maps in the wrong order
- maps = ours.attention.query, ours.attention.key, ours.attention.value
+ maps = ours.attention.key, ours.attention.query, ours.attention.value

packed maps cut along the wrong axis
- packed.in_proj_weight.chunk(3)
+ packed.in_proj_weight.t().chunk(3, 1)

# The whole encoder

a longer table than max_length
- SinusoidalPositions(max_length, d_model)
+ SinusoidalPositions(max_length + 1, d_model)

token 0 never learns
- nn.Embedding(vocab_size, d_model)
+ nn.Embedding(vocab_size, d_model, padding_idx=0)

tokens cut to norm 1
- nn.Embedding(vocab_size, d_model)
+ nn.Embedding(vocab_size, d_model, max_norm=1.0)

embedding starts at N(0, 1)
- nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
+ pass

embedding starts at N(0, 1/D)
- std=d_model**-0.5
+ std=1 / d_model

embedding not scaled
- self.embedding(token_ids) * math.sqrt(d_model)
+ self.embedding(token_ids)

embedding scaled twice
- * math.sqrt(d_model)
+ * d_model

positions scaled, too
- x = self.embedding(token_ids) * math.sqrt(d_model)
-         return self.dropout(self.positions(x))
+ return self.dropout(self.positions(self.embedding(token_ids)) * math.sqrt(d_model))

embedding without dropout
- self.dropout(self.positions(x))
+ self.positions(x)

dropout before positions
- self.dropout(self.positions(x))
+ self.positions(self.dropout(x))

one layer shared by all
- nn.ModuleList(EncoderLayer(*options) for _ in range(n_layers))
+ nn.ModuleList([EncoderLayer(*options)] * n_layers)

layers start as copies
- nn.ModuleList(EncoderLayer(*options) for _ in range(n_layers))
+ nn.ModuleList(deepcopy(first) for first in [EncoderLayer(*options)] * n_layers)

a layer too few
- for _ in range(n_layers))
+ for _ in range(n_layers - 1))

layers in a plain list
- nn.ModuleList(EncoderLayer(*options) for _ in range(n_layers))
+ [EncoderLayer(*options) for _ in range(n_layers)]

layers in reverse
- for layer in self.layers:
+ for layer in reversed(self.layers):

final norm missing
- nn.LayerNorm(d_model) if norm_first else nn.Identity()
+ nn.Identity()

final norm for Post-LN, too
- nn.LayerNorm(d_model) if norm_first else nn.Identity()
+ nn.LayerNorm(d_model)

final norm for Post-LN only
- nn.LayerNorm(d_model) if norm_first else
+ nn.LayerNorm(d_model) if not norm_first else

final norm made and not used
- self.final_norm(x), maps
+ x, maps

padding forgotten by the stack
- layer(x, key_padding_mask, need_weights)
+ layer(x, None, need_weights)

padding in the first layer only
- maps.append(weights)
+ maps.append(weights)
+             key_padding_mask = None

layers read the embedding again
- x, weights = layer(x,
+ x, weights = layer(self.embed(token_ids),

maps in reverse
- maps.append(weights)
+ maps.insert(0, weights)

a list of None for maps
- maps if need_weights else None
+ maps

gradient cut between layers
- x, weights = layer(x,
+ x, weights = layer(x.detach(),

maps kept on the module
- maps.append(weights)
+ maps.append(weights)
+             layer.maps = weights

# The start of a linear map

Xavier start missing
- nn.init.xavier_uniform_(layer.weight)
+ pass

all weights start at 0
- nn.init.xavier_uniform_(layer.weight)
+ nn.init.zeros_(layer.weight)

biases start as noise
- nn.init.zeros_(layer.bias)
+ pass

# Refusals

ids of any rank
- if ids.dim() != 2 or ids.shape[1] > max_length:
+ if ids.shape[-1] > max_length:

ids of any length
- ids.dim() != 2 or ids.shape[1] > max_length
+ ids.dim() != 2

longest text refused
- ids.shape[1] > max_length
+ ids.shape[1] >= max_length

int32 refused
- (torch.int64, torch.int32)
+ (torch.int64,)

ids of any dtype
- if ids.dtype not in (torch.int64, torch.int32):
+ if False:

ids read on meta
- if not ids.is_meta and ids.numel():
+ if ids.numel():

no ids in an empty batch
- if not ids.is_meta and ids.numel():
+ if not ids.is_meta:

id too high by one let through
- high >= vocab_size
+ high > vocab_size

ids below 0 let through
- if low < 0 or high
+ if high

id 0 refused
- if low < 0 or
+ if low < 1 or

hidden state of any width
- x.dim() != 3 or x.shape[-1] != d_model
+ x.dim() != 3

hidden state of any rank
- x.dim() != 3 or x.shape[-1] != d_model
+ x.shape[-1] != d_model

hidden state of integers
- if not x.is_floating_point():
+ if False:

padding of any dtype
- if mask.dtype != torch.bool:
+ if False:

padding of any shape
- if mask.shape != x.shape[:2]:
+ if False:

padding that broadcasts let through
- if mask.shape != x.shape[:2]:
+ if mask.shape[1] != x.shape[1]:

K of query and key may differ
- shapes[0][-1] != shapes[1][-1] or shapes[1]
+ shapes[1]

Tk of key and value may differ
- shapes[0][-1] != shapes[1][-1] or shapes[1][-2] != shapes[2][-2]
+ shapes[0][-1] != shapes[1][-1]

blocked of any dtype
- if blocked.dtype != torch.bool:
+ if False:

blocked read from the wrong end
- zip(given[::-1], scores[::-1])
+ zip(given, scores)

blocked may not broadcast
- b not in (1, n)
+ b != n

blocked of any rank
- len(given) > len(scores) or any
+ any
""")

EQUIVALENT = parse("""
keys transposed by another name
- key.transpose(-2, -1)
+ key.mT
= mT is the same transpose

layers split off by size
- x.unflatten(-1, (self.n_heads, -1))
+ x.unflatten(-1, (self.n_heads, x.shape[-1] // self.n_heads))
= unflatten computes the size that -1 stands for
""")
