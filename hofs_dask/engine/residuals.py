"""The reduction that sums the residuals of a class posterior over the codes of each feature."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hofs_dask.engine.posteriors import (
    KERNEL_MODULES as POSTERIOR_KERNELS,
)
from hofs_dask.engine.posteriors import (
    GainsContext,
    class_posterior,
    narrowed,
    pieces,
    prepared,
)
from hofs_dask.engine.reduction import Block, Layout, Partial, Reduction, frozen
from hofs_dask.kernels.posterior import add_residuals

#: The modules of the kernels that the reduction calls.
KERNEL_MODULES = POSTERIOR_KERNELS


def _layout(context: GainsContext, n_features: int) -> Layout:
    _, _, n_classes, n_codes = context.candidates.table.shape
    n_strata = n_codes if context.candidates.pair_parents.shape[1] else 1
    width = 2 * n_classes
    return {
        "sums": ((n_features, n_strata * n_codes, width), np.float64),
        "products": ((n_features, n_strata, width, width), np.float64),
        "predicted": ((n_features, n_classes, width), np.float64),
    }


def _chunk(context: GainsContext, block: Block, partial: Partial) -> None:
    places = context.places
    assert places is not None  # the context is prepared
    if len(places) < len(block.tile):
        block = replace(block, tile=block.tile.only(places))
    sums, products = (np.zeros_like(partial[name][places]) for name in ("sums", "products"))
    predicted = np.zeros(partial["predicted"].shape[1:])
    parents = np.zeros(len(places), np.int64)
    if context.candidates.pair_parents.shape[1]:
        parents = np.maximum(context.candidates.pair_parents[:, 0], 0)
    for piece in pieces(context, block):
        probability = class_posterior(context, piece)[1].T
        n_samples, n_classes = probability.shape
        both = np.zeros((n_samples, 2 * n_classes))
        rows = np.arange(n_samples)
        both[:, :n_classes] = -probability
        both[rows, piece.labels] += 1
        both[rows, n_classes + probability.argmax(axis=1)] = 1
        indicators = both[:, n_classes:].copy()
        if len(piece.weights):
            both *= piece.weights[:, None]
        predicted += indicators.T @ both
        add_residuals(piece.codes, piece.bases, frozen(parents), frozen(both), sums)
        for parent in np.unique(parents):
            codes = piece.columns[parent - 1] if parent else np.zeros(n_samples, np.uint8)
            for code in np.unique(codes):
                some = both[codes == code]
                products[parents == parent, code] += some.T @ some
    partial["sums"][places] += sums
    partial["products"][places] += products
    partial["predicted"][places] += predicted


def _total(_context: GainsContext, total: Partial) -> Partial:
    """Return the sums and products after residuals are centred within each predicted class."""
    sums, products = total["sums"], total["products"]
    n_classes = sums.shape[-1] // 2
    residuals, indicators = np.split(total["predicted"], 2, axis=2)
    size = indicators.sum(axis=1)[:, None]  # (feature, 1, predicted class)
    means = residuals.swapaxes(1, 2) / np.where(size > 0, size, 1.0)
    identity = np.broadcast_to(np.eye(n_classes), means.shape)
    centre = np.concatenate([identity, -means], axis=2)[:, None]  # (feature, 1, class, 2 class)
    return {
        "sums": np.matmul(sums[:, :, None], centre.swapaxes(-1, -2))[:, :, 0],
        "products": centre @ products @ centre.swapaxes(-1, -2),
    }


#: The residual of a sample for a class is 1 if the sample has this class and 0 otherwise, minus the
#: posterior probability of the class. ``sums[i, cell, class]`` are sums of residuals over samples.
#: A cell is a code of candidate i or, if any candidate has a pair row, a pair of a code of the
#: parent and a code of candidate i. ``products[i, parent code, class, class]`` are sums over
#: samples of the product of the residuals for two classes. With weights, residuals are multiplied
#: by the weight of the sample.
#:
#: The posterior may be too certain, if picks depend on each other, or not certain enough, if tables
#: are shrunk. A feature that depends on the picks would then seem to add information. The mean of
#: the residuals of all samples with the same predicted (most probable) class is therefore
#: subtracted. In the partials, ``sums`` and ``products`` are computed from the residuals and from
#: indicators of the predicted class, and ``predicted`` has the sums of both by predicted class.
RESIDUALS = Reduction("residuals", _layout, _chunk, _total, prepared, narrowed)
