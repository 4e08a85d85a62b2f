"""Slow and simple look-ahead: which tuples of features wait to be chosen as a whole."""

from itertools import combinations

import numpy as np
from scipy.stats import chi2

from tests.oracles_interactions import fitted, information, synergy

#: Codes of a feature in a tuple, samples per cell, and the level of the test.
MOST, PER_CELL, ALPHA = 4, 10, 1e-2


def waiting(data, order, left):
    """Return tuples that share no feature, with their information and p-value; best first."""
    found, taken = [], set()
    for k in range(2, order + 1):
        most = most_codes(data, k)
        columns = {i: grouped(data, i, most) for i in left}
        tuples = list(combinations(left, k))
        rated = [rate(data, columns, each) for each in tuples]
        best = sorted(range(len(tuples)), key=lambda t: (-rated[t][0], tuples[t]))[:100]
        for t in best:
            _, worth, p = rated[t]
            if p * len(tuples) <= ALPHA and not taken & set(tuples[t]):
                found.append((tuples[t], worth, p))
                taken |= set(tuples[t])
    return sorted(found, key=lambda each: -each[1] / len(each[0]))[:5]


def most_codes(data, k):
    """Return the number of codes of a feature in a tuple of k features."""
    most = 2
    while most < MOST and PER_CELL * data.n_classes * (most + 1) ** k <= data.size:
        most += 1
    return most


def thirds(data, parents, n_paired, left):
    """Return features with synergy with two of the parents, not both among the first, and these."""
    most = most_codes(data, 3)
    columns = {i: grouped(data, i, most) for i in [*parents, *left]}
    n_tuples = len(parents) * (len(parents) - 1) / 2 * len(left)
    best = {}
    for v in range(n_paired, len(parents)):
        for u in range(v):
            for i in left:
                p = rate(data, columns, (parents[u], parents[v], i))[2]
                if p * n_tuples <= ALPHA and p < best.get(i, (1,))[0]:
                    best[i] = p, (parents[u], parents[v])
    found = sorted(best, key=lambda i: (best[i][0], i))[:5]
    return {i: best[i][1] for i in found}


def rate(data, columns, features):
    """Return the synergy, the information and the p-value of a tuple."""
    shape = [max(columns[i]) + 1 for i in features]
    table = np.zeros((*shape, data.n_classes))
    for s in range(data.n_samples):
        table[(*(columns[i][s] for i in features), data.labels[s])] += 1
    found = synergy(table)
    size = data.size
    if data.groups is not None:
        size = min(data.effective_size(i) for i in features)
    p = chi2.sf(2 * size * found, max(freedom(table), 1))
    return found, information(table, list(range(len(features)))), p


def freedom(table):
    """Return the possible cells minus the rank of the model without the highest term."""
    possible = np.argwhere(fitted(table) > 0)
    terms = []
    for axis in range(table.ndim):
        rest = np.delete(possible, axis, axis=1)
        terms += [(rest == each).all(axis=1) for each in np.unique(rest, axis=0)]
    return len(possible) - np.linalg.matrix_rank(np.array(terms, float))


def grouped(data, i, most):
    """Return the codes of a feature, merged to at most so many groups."""
    codes = data.codes[:, i].tolist()
    counts = {code: codes.count(code) for code in sorted(set(codes))}
    if len(counts) <= most:
        return [sorted(counts).index(code) for code in codes]
    missing = {code for code in counts if np.isnan(data.values[i, code])}
    if data.nominal[i]:
        frequent = sorted(counts, key=lambda code: (-counts[code], code))[: most - 1]
        frequent.sort()
        return [frequent.index(code) if code in frequent else most - 1 for code in codes]
    known = [code for code in counts if code not in missing]
    total = sum(counts[code] for code in known)
    n_groups = most - 1 if missing and most > 2 else most
    group, before = {}, 0
    for code in known:
        group[code] = int((before + counts[code] / 2) * n_groups // total)
        before += counts[code]
    used = sorted(set(group.values()))
    group = {code: used.index(each) for code, each in group.items()}
    for code in missing:
        sizes = [sum(counts[c] for c in known if group[c] == g) for g in range(len(used))]
        group[code] = len(used) if most > 2 else sizes.index(max(sizes))
    return [group[code] for code in codes]
