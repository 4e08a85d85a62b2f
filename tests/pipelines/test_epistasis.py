"""The models of epistasis: no effect of fewer loci than the causal ones, and the stated size."""

import json

import numpy as np
import pytest

from pipelines import epistasis


@pytest.mark.parametrize(("order", "heritability"), [(2, 0.4), (3, 0.1), (2, None)])
def test_table__has_equal_margins_and_the_heritability(order, heritability):
    found = epistasis.pure_table([0.2, 0.3, 0.4][:order], heritability, np.random.default_rng(1))
    assert 0 <= found.table.min() < found.table.max() <= 1
    assert found.shares.sum() == pytest.approx(1)
    for margin in found.margins():
        np.testing.assert_allclose(margin, found.prevalence, atol=1e-12)
    if heritability is None:
        assert found.heritability > 0.4
        assert min(found.table.min(), 1 - found.table.max()) < 1e-12
    else:
        assert found.heritability == pytest.approx(heritability, abs=1e-9)


def test_table__of_impossible_heritability_is_refused():
    with pytest.raises(ValueError, match=r"no table of heritability 0\.5 found; best 0\."):
        epistasis.pure_table([0.05, 0.05], 0.5, np.random.default_rng(0))


@pytest.mark.parametrize("model", epistasis.MODELS)
def test_sample__has_the_tables_of_its_model(model):
    made = epistasis.make_sample(model, 0.2, 20, 0.3, seed=3)
    again = epistasis.make_sample(model, 0.2, 20, 0.3, seed=3)
    np.testing.assert_array_equal(made.x, again.x)
    assert made.x.shape == (1600, 20)
    assert made.y.sum() == 800
    sizes = {"two-way": [2], "two pairs": [2, 2], "three-way": [3]}
    assert [len(each) for each in made.causal] == sizes[model]
    for feature in (i for each in made.causal for i in each):
        # Hardy-Weinberg proportions of cases and controls, within six standard errors
        for label in (0, 1):
            shares = np.bincount(made.x[made.y == label, feature], minlength=3) / 800
            np.testing.assert_allclose(shares, epistasis.genotype_shares(0.3), atol=0.11)


def test_draw__has_the_odds_of_the_table():
    rng = np.random.default_rng(0)
    model = epistasis.pure_table([0.3, 0.4], 0.3, rng)
    counts = [np.zeros((3, 3)), np.zeros((3, 3))]
    for label in (0, 1):
        np.add.at(counts[label], tuple(model.draw(100_000, cases=bool(label), rng=rng).T), 1)
    k = model.prevalence
    of_cases = model.shares * model.table / k
    of_controls = (model.shares - k * of_cases) / (1 - k)
    np.testing.assert_allclose(counts[1] / 100_000, of_cases, atol=0.01)
    np.testing.assert_allclose(counts[0] / 100_000, of_controls, atol=0.01)


def test_run__ranks_and_writes_a_table(tmp_path):
    path = tmp_path / "results" / "epistasis.json"
    options = {"models": ["two-way"], "heritabilities": [0.4], "path": path}
    epistasis.run({20: 1}, 0.3, None, **options)
    (row,) = json.loads(path.read_text())
    for name in ("hofs", "interactions"):
        assert set(row["ranks"][name][:2]) == set(row["causal"][0])
    text = epistasis.table_of([row], 20)
    assert "| method | two-way, 0.4 |" in text
    assert "| `hofs` | 100 / 100 |" in text
