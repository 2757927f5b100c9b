"""Title and caption of every figure: what to see in it, and how it was counted."""

from __future__ import annotations

TEXTS: dict[str, tuple[str, str]] = {
    "nfe": (
        "Target forwards by drafter and budget",
        "Target forwards per sample (NFE) against the draft budget D, the most drafts per round; the control's own "
        "is in the title of each panel. Lower is better, and a line that still falls at the right has not run out "
        "of useful drafts.",
    ),
    "ratio": (
        "Throughput ratio by drafter and budget",
        "Tokens per second over those of the control of the same seed and device, against the draft budget D; "
        "above the dashed line a method is faster than decoding without drafts. Bars are one sample standard "
        "deviation over seeds.",
    ),
    "bought": (
        "Budget curve: what the drafts buy",
        "Drafts accepted against drafts verified per drafted round, one point per budget; the slope is what one "
        "more draft still buys, and points further right cost more positions per forward.",
    ),
    "block": (
        "Accepted drafts by block",
        "Drafts accepted per drafted round at D = {budget}, by block of the sample (0 holds the first generated "
        "position), pooled over samples and seeds; blocks after the end of the answer hold near-certain filler, "
        "where long drafts are easy to accept.",
    ),
    "answer": (
        "Where the forwards go: answer and filler",
        "Target forwards per sample, split at the first stop id: only the left part was spent on text that a "
        "reader sees, and only its cut would remain if decoding stopped there.",
    ),
    "timing": (
        "Where the time goes",
        "Net wall time per generated token; a method is faster than the control when its bar is shorter than the "
        "first one. Loading and warm-up are excluded, drafting is charged.",
    ),
    "seeds": (
        "Spread over seeds",
        "Every run's distance from the mean over the seeds of its cell; a difference between methods that is "
        "smaller than this scatter is no difference. At T = 0 nothing but the clock depends on the seed.",
    ),
    "learning": (
        "Learning curve of the order model",
        "How often the next position to be committed is predicted, on trajectories that were not trained on; the "
        "gap between the lines is what learning the commit order adds to sorting by stale confidence, and it "
        "should widen with depth.",
    ),
}
