"""One-line faults of `decoder.py`, each of which the decoder's tests must notice.

`mutation.py` says how a block is read. Most are faults met in real decoders; the others
each undo one decision of ours.
"""

from mutation import parse

MUTANTS = parse("""
# Who may see whom

a token may not see itself
- dtype=torch.bool).triu(1)
+ dtype=torch.bool).triu(0)

a token sees the next one
- dtype=torch.bool).triu(1)
+ dtype=torch.bool).triu(2)

the past is blocked and not the future
- dtype=torch.bool).triu(1)
+ dtype=torch.bool).tril(-1)

no token is causal
- if not self.causal:
+ if True:

every decoder is causal
- if not self.causal:
+ if False:

blocked forgotten where there is a triangle
- return either(blocked, causal_mask(n_tokens)
+ return either(None, causal_mask(n_tokens)

rows of a mask not cut to the new tokens
- return blocked[..., n_past:, :]
+ return blocked[..., : blocked.shape[-2] - n_past, :]

a row for all queries is cut away
- blocked.shape[-2] == 1
+ False

a flat mask is cut
- blocked.dim() < 2
+ False

# Attention to a source

values from the queries' map
- return KeyValue(key, self.split_heads(self.value(memory)))
+ return KeyValue(key, self.split_heads(self.query(memory)))

key and value exchanged
- return KeyValue(key, self.split_heads(self.value(memory)))
+ return KeyValue(self.split_heads(self.value(memory)), key)

queries not projected
- query = self.split_heads(self.query(x))
+ query = self.split_heads(x)

padding of the source forgotten
- blocked = either(blocked, padded)
+ pass

padding in place of what is blocked
- blocked = either(blocked, padded)
+ blocked = padded

padding along the query axis
- padded = key_padding_mask[:, None, None]
+ padded = key_padding_mask[:, None, :, None]

bias forgotten
- extra = given(bias=bias)
+ extra = {}

heads merged before they are put last
- context.transpose(1, 2).flatten(2)
+ context.flatten(1, 2).unflatten(1, (x.shape[1], -1)).flatten(2)

output not projected
- return self.output(context), weights
+ return context, weights

# The layer

the text's own padding for the source
- masks = memory_padding_mask, need_weights, memory_blocked
+ masks = None, need_weights, memory_blocked

what is blocked of the source forgotten
- masks = memory_padding_mask, need_weights, memory_blocked
+ masks = memory_padding_mask, need_weights, None

padding of the text forgotten
- masks = key_padding_mask, need_weights, blocked
+ masks = None, need_weights, blocked

a layer always causal
- masks = key_padding_mask, need_weights, blocked
+ masks = key_padding_mask, need_weights, causal_mask(x.shape[1])

the source without its residual
- return self.leave(self.norm2, x, mixed), source, weights
+ return self.leave(self.norm2, 0 * x, mixed), source, weights

the first norm twice
- return self.leave(self.norm2, x, mixed), source, weights
+ return self.leave(self.norm1, x, mixed), source, weights

what is read of the source normalised by another norm
- inside = self.enter(self.norm2, x)
+ inside = self.enter(self.norm1, x)

memory normalised like the text
- else self.cross_attention.project(memory)
+ else self.cross_attention.project(self.enter(self.norm2, memory))

the source read with the other attention
- else self.cross_attention.project(memory)
+ else self.self_attention.project(memory)

self-attention before its norm
- own = self.self_attention.project(inside)
+ own = self.self_attention.project(x)

queries before their norm
- inside, own, padding
+ x, own, padding

feed-forward without its residual
- x = self.leave(self.norm3, x, self.feed_forward(
+ x = self.leave(self.norm3, 0 * x, self.feed_forward(

feed-forward before its norm
- self.feed_forward(self.enter(self.norm3, x))
+ self.feed_forward(x)

no feed-forward
- self.feed_forward(self.enter(self.norm3, x))
+ 0 * x

the orders exchanged on the way in
- return norm(x) if self.norm_first else x
+ return x if self.norm_first else norm(x)

the orders exchanged on the way out
- return x if self.norm_first else norm(x)
+ return norm(x) if self.norm_first else x

no dropout of what a part says
- x = x + self.dropout(change)
+ x = x + change

weights returned unasked
- DecoderMaps(own_map, source_map) if need_weights else None
+ DecoderMaps(own_map, source_map)

the two maps exchanged
- DecoderMaps(own_map, source_map) if
+ DecoderMaps(source_map, own_map) if

cross-attention without dropout
- self.cross_attention = CrossAttention(d_model, n_heads, dropout)
+ self.cross_attention = CrossAttention(d_model, n_heads)

self-attention without dropout
- self.self_attention = CrossAttention(d_model, n_heads, dropout)
+ self.self_attention = CrossAttention(d_model, n_heads)

activation forgotten
- FeedForward(d_model, d_ff, dropout, activation)
+ FeedForward(d_model, d_ff, dropout)

inner dropout forgotten
- FeedForward(d_model, d_ff, dropout, activation)
+ FeedForward(d_model, d_ff, 0.0, activation)

eps of the middle norm forgotten
- self.norm2 = nn.LayerNorm(d_model, eps=norm_eps)
+ self.norm2 = nn.LayerNorm(d_model)

a decoder always reads a source
- if cross_attention:
+ if True:

# torch's layer

torch's attentions exchanged
- copy_attention(theirs.multihead_attn, ours.cross_attention)
+ copy_attention(theirs.self_attn, ours.cross_attention)

torch's attention to the source forgotten
- copy_attention(theirs.multihead_attn, ours.cross_attention)
+ pass

torch's last norm forgotten
- ours.norm3 = deepcopy(theirs.norm3)
+ pass

torch's norms exchanged
- ours.norm2 = deepcopy(theirs.norm2)
+ ours.norm2 = deepcopy(theirs.norm3)

torch's first norm shared
- ours.norm1 = deepcopy(theirs.norm1)
+ ours.norm1 = theirs.norm1

torch's mode forgotten
- return ours.train(theirs.training)
+ return ours

torch's order forgotten
- norm_first=theirs.norm_first,

torch's activation forgotten
- activation=deepcopy(theirs.activation),

torch's final norm forgotten
- final_norm = nn.Identity() if theirs.norm is None else deepcopy(theirs.norm)
+ final_norm = nn.Identity()

torch's stack keeps the mode of training
- layers.training = theirs.training
+ pass

# The stack

positions of a piece start anew
- x = self.embed(token_ids)[:, n_past:]
+ x = self.embed(token_ids[:, n_past:])

the final norm forgotten
- return self.final_norm(x), maps if need_weights else None, grown
+ return x, maps if need_weights else None, grown

one layer's cache for all
- grown.append(now)
+ grown = [now] * len(self.layers)

words scored without their bias
- self.embedding.weight, self.word_bias
+ self.embedding.weight

layers without the norm's order
- "norm_first": norm_first,

layers with the default eps
- "norm_eps": norm_eps,

layers without dropout
- "dropout": dropout,

source padding not handed to the encoder
- self.encoder(source_ids, source_padding_mask)
+ self.encoder(source_ids)

source padding not handed to the decoder
- masks = target_padding_mask, source_padding_mask, need_weights
+ masks = target_padding_mask, None, need_weights

the paddings exchanged
- masks = target_padding_mask, source_padding_mask, need_weights
+ masks = None, source_padding_mask, need_weights

# Training

no shift
- return torch.cat((first, token_ids[:, :-1]), dim=1)
+ return token_ids

the shift goes to the left
- return torch.cat((first, token_ids[:, :-1]), dim=1)
+ return torch.cat((token_ids[:, 1:], first), dim=1)

the first word falls out
- return torch.cat((first, token_ids[:, :-1]), dim=1)
+ return torch.cat((first, token_ids[:, 1:]), dim=1)

padding is learned too
- real = ~key_padding_mask
+ real = torch.ones_like(key_padding_mask)

# Writing

the scores of the first place
- return decoder.score(hidden[:, -1]), cache
+ return decoder.score(hidden[:, 0]), cache

the step forgets its cache
- masks = {"memory_padding_mask": sources[1], "cache": cache}
+ masks = {"memory_padding_mask": sources[1]}

the step forgets the padding of the source
- masks = {"memory_padding_mask": sources[1], "cache": cache}
+ masks = {"cache": cache}

beams of one source get several
- x.repeat_interleave(len(like) // len(x), dim=0)
+ x.repeat(len(like) // len(x), *[1] * (x.dim() - 1))

the least likely word
- return scores.argmax(dim=-1)
+ return scores.argmin(dim=-1)

temperature multiplies
- shares = (scores / temperature).softmax(dim=-1)
+ shares = (scores * temperature).softmax(dim=-1)

temperature without effect
- shares = (scores / temperature).softmax(dim=-1)
+ shares = scores.softmax(dim=-1)

the k-th is left out
- scores.masked_fill(scores < lowest, -torch.inf)
+ scores.masked_fill(scores <= lowest, -torch.inf)

top-k without effect
- scores.masked_fill(scores < lowest, -torch.inf)
+ scores

top-k of more words than there are
- scores.topk(min(top_k, scores.shape[-1]))
+ scores.topk(top_k)

the generator is not used
- torch.multinomial(shares, 1, generator=generator)
+ torch.multinomial(shares, 1)

a cache is always used
- cache if use_cache else None
+ cache

a cache is never used
- cache if use_cache else None
+ None

texts go on after the end
- word = word.masked_fill(ended, end)
+ pass

writing never stops before n_words
- ended = word == end
+ pass

the end of one text ends all
- dim=1)
-         if ended.all():
-             break
-     return token_ids
+ dim=1)
+         if ended.any():
+             break
+     return token_ids

# Beams

a search without end
- parent)
-         ended = has_met(end, beams, n_first)
+ parent)
+         ended = has_met(None, beams, n_first)

the first words may end a text
- written = beams.token_ids[..., n_first:]
+ written = beams.token_ids

the caches of the parents are mixed up
- cache = select_rows(cache, parent)
+ cache = select_rows(cache, parent.roll(1))

an ended text pays for the end
- only_end[:, end] = 0.0
+ only_end[:, end] = log_shares[:, end]

an ended text goes on
- return torch.where(ended[:, None], only_end, log_shares)
+ return log_shares

scores are not shares
- log_shares = scores.log_softmax(dim=-1)
+ log_shares = scores

the past of a beam counts for nothing
- totals = beams.scores.flatten()[:, None] + gained
+ totals = gained

beams of all sources compete
- first_rows = torch.arange(0, n_rows * n_beams, n_beams
+ first_rows = torch.arange(0, n_rows, 1

the worst texts stay
- best = totals.topk(min(width, totals.shape[1]))
+ best = totals.topk(min(width, totals.shape[1]), largest=False)

word and parent exchanged
- came_from = best.indices // n_words
+ came_from = best.indices % n_beams

writing keeps a graph
- @torch.no_grad()
- def beam_search(
+ def beam_search(

# The cache

the new before the past
- zip(past, new, strict=True)
+ zip(new, past, strict=True)

a cache that forgets
- own = extend(cache.own, own)
+ pass

values of other rows than their keys
- KeyValue(pair.key[rows], pair.value[rows])
+ KeyValue(pair.key[rows], pair.value)

the source counted with the text
- return sum(own for own, _ in sizes), sum(source for _, source in sizes)
+ return sum(map(sum, sizes)), sum(source for _, source in sizes)

a number counted as one byte
- x.numel() * x.element_size() for x in pair
+ x.numel() for x in pair

# What is refused

a memory of other rows passes
- if len(key) != len(x):
+ if False:

no memory passes
- if is_wanted and memory is None and cache is None:
+ if False:

a memory for nobody passes
- if memory is not None and not is_wanted:
+ if False:

a cache without causality passes
- if not decoder.causal:
+ if False:

a cache of other layers passes
- if len(cache) != len(decoder.layers):
+ if False:

a cache of other rows passes
- if len(token_ids) != n_rows or token_ids
+ if token_ids

a text no longer than its cache passes
- or token_ids.shape[1] <= n_past
+ or token_ids.shape[1] < n_past

an empty beginning passes
- if token_ids.dim() != 2 or token_ids.shape[1] < 1:
+ if token_ids.dim() != 2:

ids of floats pass
- if token_ids.dtype not in (torch.int64, torch.int32):
+ if False:

an end that is no word passes
- if end is not None and not 0 <= end < n_words:
+ if False:

numbers below one pass
- if number < 1:
+ if number < 0:

a temperature of zero passes
- if not temperature > 0:
+ if temperature < 0:

tokens first pass
- if not layer.self_attn.batch_first:
+ if False:
""")

EQUIVALENT = parse("""
triangle made of another triangle
- torch.ones(n_tokens, n_tokens, dtype=torch.bool).triu(1)
+ ~torch.ones(n_tokens, n_tokens, dtype=torch.bool).tril()
= Above the diagonal is what is not on it or below.

greedy by sorting
- return scores.argmax(dim=-1)
+ return scores.topk(1).indices[:, 0]
= Both take the highest score.
""")
