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
    return {
        "sums": ((n_features, n_strata * n_codes, n_classes), np.float64),
        "products": ((n_features, n_strata, n_classes, n_classes), np.float64),
    }


def _chunk(context: GainsContext, block: Block, partial: Partial) -> None:
    places = context.places
    assert places is not None  # the context is prepared
    if len(places) < len(block.tile):
        block = replace(block, tile=block.tile.only(places))
    sums, products = (np.zeros_like(partial[name][places]) for name in ("sums", "products"))
    parents = np.zeros(len(places), np.int64)
    if context.candidates.pair_parents.shape[1]:
        parents = np.maximum(context.candidates.pair_parents[:, 0], 0)
    for piece in pieces(context, block):
        probability = class_posterior(context, piece)[1]
        residuals = -probability.T
        residuals[np.arange(len(residuals)), piece.labels] += 1
        residuals = np.ascontiguousarray(residuals)
        add_residuals(piece.codes, piece.bases, frozen(parents), frozen(residuals), sums)
        for parent in np.unique(parents):
            codes = piece.columns[parent - 1] if parent else np.zeros(len(residuals), np.uint8)
            for code in np.unique(codes):
                some = residuals[codes == code]
                products[parents == parent, code] += some.T @ some
    partial["sums"][places] += sums
    partial["products"][places] += products


def _total(_context: GainsContext, total: Partial) -> Partial:
    return total


#: The residual of a sample and a class is 1 or 0, whether the sample has the class, minus the
#: probability of the class. ``sums[i, cell, class]`` are the sums of residuals, where a cell is a
#: code of a candidate or, if any candidate has a pair row, the code of its parent and its own one.
#: ``products[i, code of the parent, class, class]`` are the sums of products of two residuals.
RESIDUALS = Reduction("residuals", _layout, _chunk, _total, prepared, narrowed)
