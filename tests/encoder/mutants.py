"""One-line faults of `encoder.py`, each of which the encoder's tests must notice.

`mutation.py` says how a block is read. Most are faults met in real encoders; the others
each undo one decision of ours.
"""

from mutation import parse

MUTANTS = parse("""
# Positions

base 1000 in place of 10000
- / 10000 **
+ / 1000 **

sine and cosine swapped
- angle.sin(), angle.cos()
+ angle.cos(), angle.sin()

sines first, cosines after them
- pairs.flatten(1)[:
+ pairs.transpose(1, 2).flatten(1)[:

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
- return x + self.table[:n_tokens]
+ return x + self.table[: x.shape[0], None]

one position for all
- return x + self.table[:n_tokens]
+ return x + self.table[n_tokens - 1]

positions not added
- return x + self.table[:n_tokens]
+ return x

positions added twice
- return x + self.table
+ return x + 2 * self.table

positions in place of tokens
- return x + self.table[:n_tokens]
+ return 0 * x + self.table[:n_tokens]

table left behind by moves
- self.register_buffer("table", table, persistent=False)
+ self.table = table

table saved in the state dict
- persistent=False
+ persistent=True

table cast and not recomputed
- if x.dtype == torch.float64:
+ if False:

float64 positions for one token too few
- sinusoidal_positions(n_tokens, d_model).to(x.device)
+ sinusoidal_positions(n_tokens, d_model).to(x.device).roll(1, 0)

table not computed anew for weights that are loaded
- encoder.positions.fill(like=encoder.embedding.weight)
+ pass

table filled without the dtype of the weights
- sinusoidal_positions(*self.table.shape).to(like)
+ sinusoidal_positions(*self.table.shape).to(like.device).float()

table filled where it was and not where the weights are
- sinusoidal_positions(*self.table.shape).to(like)
+ sinusoidal_positions(*self.table.shape).to(self.table.device, like.dtype)

loading looks for positions where there are none
- if isinstance(encoder.positions, SinusoidalPositions):
+ if True:

loading leaves the table alone
- self.register_load_state_dict_post_hook(fill_positions)
+ pass

table always float32
- .to(torch.get_default_dtype())
+ .float()

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

bias ignored
- scores = scores + bias
+ pass

bias subtracted
- scores = scores + bias
+ scores = scores - bias

bias scaled like the scores
- scores = scores + bias
+ scores = scores + bias / math.sqrt(query.shape[-1])

bias in its own dtype
- bias = bias.to(scores.dtype)
+ pass

bias of -inf blocks nothing
- blocked = either(blocked, bias == -math.inf)
+ pass

bias of -inf in place of what is blocked
- blocked = either(blocked, bias == -math.inf)
+ blocked = bias == -math.inf

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
- self.query = linear(d_model, d_model)
-         self.key = linear(d_model, d_model)
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
- return self.output(context), weights
+ return context, weights

transpose missing in the merge
- context.transpose(1, 2).flatten(2)
+ context.reshape(x.shape)

heads interleaved in the merge
- context.transpose(1, 2).flatten(2)
+ context.permute(0, 2, 3, 1).flatten(2)

heads interleaved in the split
- heads = x.unflatten(-1, (self.n_heads, -1))
+ heads = x.unflatten(-1, (-1, self.n_heads)).transpose(-2, -1)

heads cut across tokens
- return heads.transpose(1, 2)
+ return x.reshape(x.shape[0], self.n_heads, x.shape[1], -1)

heads left behind tokens
- return heads.transpose(1, 2)
+ return heads

padding blocks queries
- key_padding_mask[:, None, None]
+ key_padding_mask[:, None, :, None]

padding blocks queries and keys
- key_padding_mask[:, None, None]
+ key_padding_mask[:, None, None] | key_padding_mask[:, None, :, None]

padding ignored
- if key_padding_mask is not None:
+ if False:

padding in place of what is blocked
- blocked = either(blocked, padded)
+ blocked = padded

padding only where nothing is blocked
- blocked = either(blocked, padded)
+ blocked = padded if blocked is None else blocked

blocked only where both masks say so
- return mask | other
+ return mask & other

one mask alone is none
- return other if mask is None else mask
+ return None

blocked and bias not checked
-         check_attention(query, key, value, blocked, bias)
+         pass

attention without its bias
- extra = given(bias=bias)
-         context
+ extra = {}
+         context

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
- if need_weights or dropout or exported:
+ if need_weights or exported:

fused form never used
- if need_weights or dropout or exported:
+ if True:

weights returned unasked
- return output, weights if need_weights else None
+ return output, weights

fused form with the mask inverted
- else ~blocked
+ else blocked

fused form without a mask
- (query, key, value, mask), None
+ (query, key, value, None), None

fused form causal
- (query, key, value, mask), None
+ (query, key, value, mask, is_causal=mask is None), None

explicit form without the bias
- extra = given(bias=bias)
-             output
+ extra = {}
+             output

fused form without the bias
- mask = bias.to(query.dtype)
+ mask = torch.zeros_like(bias).to(query.dtype)

fused form with a bias in its own dtype
- mask = bias.to(query.dtype)
+ mask = bias

fused form with the bias in place of what is blocked
- mask = mask.masked_fill(blocked, -math.inf)
+ pass

fused form with what is blocked added to the bias
- mask = mask.masked_fill(blocked, -math.inf)
+ mask = mask - 10.0 * blocked

fused form with the bias of what is seen removed
- mask = mask.masked_fill(blocked, -math.inf)
+ mask = mask.masked_fill(~blocked, -math.inf)

fused form with a mask of any rank
- mask = torch.atleast_2d(mask)
+ pass

fused form with query and key swapped
- scaled_dot_product_attention(query, key,
+ scaled_dot_product_attention(key, query,

# Feed-forward

activation missing
- inner = self.activation(self.up(x))
+ inner = self.up(x)

activation behind the second map
- return self.down(self.dropout(inner))
+ return self.activation(self.down(self.dropout(self.up(x))))

activation always relu
- self.activation = activation
+ self.activation = relu

feed-forward dropout missing
- return self.down(self.dropout(inner))
+ return self.down(inner)

feed-forward dropout behind both maps
- return self.down(self.dropout(inner))
+ return self.dropout(self.down(inner))

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
- self.norm2 = nn.LayerNorm(d_model, eps=norm_eps)
+ self.norm2 = self.norm1

norm with another eps
- self.norm2 = nn.LayerNorm(d_model, eps=norm_eps)
+ self.norm2 = nn.LayerNorm(d_model, eps=1e-6)

norm without scale and shift
- self.norm2 = nn.LayerNorm(d_model, eps=norm_eps)
+ self.norm2 = nn.LayerNorm(d_model, eps=norm_eps, elementwise_affine=False)

norm over the batch and not the token
- inside = self.norm1(x) if
+ inside = self.norm1((x - x.mean(0)) / (x.std(0, False) + 1e-5)) if

norm over all tokens together
- x = self.norm1(x)
+ x = nn.functional.layer_norm(x, x.shape[1:]) * self.norm1.weight + self.norm1.bias

norm orders swapped
- self.norm_first = norm_first
+ self.norm_first = not norm_first

Pre-LN attention without its norm
- inside = self.norm1(x) if self.norm_first else x
+ inside = x

Post-LN with a norm before, too
- inside = self.norm1(x) if self.norm_first else x
+ inside = self.norm1(x)

layer forgets the padding
- self.attention(inside, key_padding_mask, need_weights, **extra)
+ self.attention(inside, None, need_weights, **extra)

layer never asks for weights
- self.attention(inside, key_padding_mask, need_weights, **extra)
+ self.attention(inside, key_padding_mask, False, **extra)

layer forgets what is blocked
- extra = given(blocked=blocked, bias=bias)
-         inside
+ extra = given(bias=bias)
+         inside

layer forgets the bias
- extra = given(blocked=blocked, bias=bias)
-         inside
+ extra = given(blocked=blocked)
+         inside

masks that are None are passed on
- if value is not None}
+ }

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
- layer.bias = None if bias is None else copy_rows(bias, rows)
+ layer.bias = nn.Parameter(weight.new_zeros(n_out))

dropout not taken over
-             dropout=theirs.dropout.p,

norm order not taken over
-             norm_first=theirs.norm_first,

activation not taken over
-             activation=deepcopy(theirs.activation),

dtype not taken over
- copy = parameter.detach()[rows].clone()
+ copy = parameter.detach()[rows].clone().to(torch.get_default_dtype())

training mode not taken over
- return ours.train(theirs.training)
+ return ours

eps not taken over
- ours.norm2 = deepcopy(theirs.norm2)
+ ours.norm2.load_state_dict(theirs.norm2.state_dict())

norms taken over in the wrong order
- ours.norm1 = deepcopy(theirs.norm1)
-         ours.norm2 = deepcopy(theirs.norm2)
+ ours.norm2 = deepcopy(theirs.norm1)
+         ours.norm1 = deepcopy(theirs.norm2)

norms shared with torch's layer
- ours.norm1 = deepcopy(theirs.norm1)
+ ours.norm1 = theirs.norm1

first map shared with torch's layer
- deepcopy(theirs.linear1)
+ theirs.linear1

second map not taken over
- ours.feed_forward.down = deepcopy(theirs.linear2)
+ pass

output map not taken over
- ours.output = copy_linear(output.weight, output.bias, slice(d_model))
+ pass

packed maps in the wrong order
- enumerate(("query", "key", "value"))
+ enumerate(("key", "query", "value"))

packed maps cut along the wrong axis
- layer.weight = weight
+ layer.weight = nn.Parameter(weight.data.T)

maps copied with all three in one storage
- parameter.detach()[rows].clone()
+ parameter.detach()[rows]

what is frozen learns
- nn.Parameter(copy, requires_grad=parameter.requires_grad)
+ nn.Parameter(copy)

tokens first let through
- if not layer.self_attn.batch_first:
+ if False:

a stack taken for a layer
- if not isinstance(layer, nn.TransformerEncoderLayer):
+ if False:

a stack's norm not taken over
- nn.Identity() if theirs.norm is None else deepcopy(theirs.norm)
+ nn.Identity()

a stack's norm shared
- else deepcopy(theirs.norm)
+ else theirs.norm

a stack trains whatever its mode
- layers.training = theirs.training
+ pass

a stack's layers all in its own mode
- layers.training = theirs.training
+ layers.train(theirs.training)

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
- x = self.embedding(token_ids) * math.sqrt(d_model)  # (B, T, D)
-         return self.dropout(self.positions(x))
+ return self.dropout(self.positions(self.embedding(token_ids)) * math.sqrt(d_model))

embedding without dropout
- self.dropout(self.positions(x))
+ self.positions(x)

dropout before positions
- self.dropout(self.positions(x))
+ self.positions(self.dropout(x))

one layer shared by all
- for _ in range(n_layers)
-         )
+ for _ in range(1)
+         )
+         self.layers = nn.ModuleList([*self.layers] * n_layers)

layers start as copies
- for _ in range(n_layers)
-         )
+ for _ in range(1)
+         )
+         self.layers = nn.ModuleList(deepcopy(self.layers[0]) for _ in range(n_layers))

a layer too few
- for _ in range(n_layers)
+ for _ in range(n_layers - 1)

layers in a plain list
- self.layers = nn.ModuleList(
+ self.layers = list(

layers in reverse
- for layer in self.layers:
+ for layer in reversed(self.layers):

final norm missing
- final_norm if norm_first else nn.Identity()
+ nn.Identity()

final norm for Post-LN, too
- final_norm if norm_first else nn.Identity()
+ final_norm

final norm for Post-LN only
- final_norm if norm_first else
+ final_norm if not norm_first else

final norm made and not used
- self.final_norm(x), maps
+ x, maps

padding forgotten by the stack
- layer(x, key_padding_mask, need_weights, **extra)
+ layer(x, None, need_weights, **extra)

what is blocked forgotten by the stack
- extra = given(blocked=blocked, bias=bias)
-         x = self.embed
+ extra = given(bias=bias)
+         x = self.embed

bias forgotten by the stack
- extra = given(blocked=blocked, bias=bias)
-         x = self.embed
+ extra = given(blocked=blocked)
+         x = self.embed

eps of the final norm not taken over
- final_norm = nn.LayerNorm(d_model, eps=norm_eps)
+ final_norm = nn.LayerNorm(d_model)

eps forgotten by the stack
-                 norm_eps=norm_eps,

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
- if tensor.is_meta or torch.compiler.is_compiling():
+ if torch.compiler.is_compiling():

ids read in a graph
- if tensor.is_meta or torch.compiler.is_compiling():
+ if tensor.is_meta:

ids read inside vmap
- return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
+ return True

ids never read
- if tensor.is_meta or torch.compiler.is_compiling():
+ if True:

no ids in an empty batch
- ids.clamp(0, vocab_size - 1)
+ ids.clamp(ids.min(), vocab_size - 1)

id too high by one let through
- ids.clamp(0, vocab_size - 1)
+ ids.clamp(0, vocab_size)

ids below 0 let through
- ids.clamp(0, vocab_size - 1)
+ ids.clamp(max=vocab_size - 1)

id 0 refused
- ids.clamp(0, vocab_size - 1)
+ ids.clamp(1, vocab_size - 1)

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
- zip(reversed(shape), reversed(scores), strict=False)
+ zip(shape, scores, strict=False)

blocked may not broadcast
- size not in (1, n)
+ size != n

blocked of any rank
- len(shape) > len(scores) or any
+ any

bias of any dtype
- if not bias.is_floating_point():
+ if False:

bias of any shape
- check_broadcast("bias", bias.shape, scores)
+ pass

blocked of any shape
- check_broadcast("blocked", blocked.shape, scores)
+ pass
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
