"""The doctor's questions, in the order in which they are asked.

A finding explains those after it: of two equally severe ones the earlier comes first,
and a probe may rest where a cause of what it looks for is known (`exam.has`).

A probe is a function of an `Exam` that yields findings; its docstring is its question.
To add one, write it into the file of its subject and put its name into the list below:

    @probe("run", "attentions")  # see NEEDS; costly=True: left out by quick=True
    def equal_heads(exam: Exam) -> Findings:
        "Do heads differ?"
        for attention in exam.attentions:
            weights = attention.weights
            if attention.n_heads > 1 and not rows_differ(weights.flatten(2)):
                yield found(
                    "projections",
                    "warning",
                    title="All heads are one",
                    evidence=f"of {dims(weights)}",
                    at=attention.row,
                )
"""

from . import (
    attention,
    blocks,
    call,
    company,
    failures,
    layout,
    masks,
    modes,
    parts,
    positions,
    training,
    weights,
)
from .kit import Probe

# How much a subject's faults weigh: how often they are reported, how much they spoil.
WEIGHT = {"failures": 9, "layout": 5, "masks": 5, "attention": 4, "positions": 4}
WEIGHT |= {
    "blocks": 3,
    "parts": 3,
    "modes": 3,
    "company": 5,
    "training": 4,
    "call": 2,
    "weights": 1,
}


def urgency(probe: Probe) -> float:
    """Return by what to order questions where time is short: weight over cost."""
    subject = (probe.function.__module__ or "").rpartition(".")[2]
    return WEIGHT.get(subject, 2) / (3 if probe.costly else 1)


PROBES = [
    failures.failure,
    call.shows_itself,
    call.flipped_integers,
    call.inputs_with_nan,
    training.attributes_of_modules,
    training.every_mode_runs,
    parts.modules_in_lists,
    parts.foreign_parameters,
    parts.parameters_made_anew,
    parts.repeated_objects,
    parts.plain_tensors,
    layout.channels_as_tokens,
    layout.pieces_of_images,
    layout.attended_axis,
    layout.tokens_meet,
    layout.scrambled_split,
    attention.scrambled_merge,
    attention.narrow_heads,
    attention.declared_heads,
    attention.heads_cut_first,
    attention.softmax_axis,
    attention.double_softmax,
    masks.padding_is_hidden,
    call.finite_outputs,
    call.queries_without_keys,
    blocks.doubled_stream,
    blocks.home_made_norms,
    blocks.norms_over_tokens,
    modes.eval_is_deterministic,
    masks.rows_sum_to_one,
    parts.discarded_results,
    weights.returned_weights,
    weights.missing_weights,
    weights.repeated_weights,
    weights.weights_in_training,
    weights.caught_weights,
    attention.unused_third,
    attention.same_projection,
    attention.score_scale,
    attention.dropout_on_scores,
    layout.features_pooled,
    layout.samples_in_output,
    layout.batch_of_one,
    layout.samples_apart,
    modes.fast_path,
    call.types_kept,
    call.other_precision,
    masks.padding_content,
    masks.causality,
    positions.positions,
    positions.one_row_for_all,
    positions.positions_of_padding,
    positions.unused_table,
    positions.positions_and_words,
    positions.rotations,
    positions.rotated_axis,
    positions.positions_of_ids,
    company.alone_and_in_company,
    company.without_its_padding,
    call.inputs_kept,
    call.backward_runs,
    blocks.residual_paths,
    blocks.skips_start_alike,
    blocks.sums_of_one_place,
    blocks.linear_on_linear,
    blocks.norms_of_all_three,
    blocks.attention_to_the_stream,
    blocks.shared_norms,
    attention.heads_mixed,
    modes.much_dropout,
    modes.train_and_eval,
    modes.eval_leaves_no_trace,
    modes.modes_left_alone,
    modes.idle_hooks,
    call.probabilities_out,
    parts.unused_parameters,
    training.gradient_of_the_loss,
    company.inputs_with_effect,
    parts.cloned_values,
]
