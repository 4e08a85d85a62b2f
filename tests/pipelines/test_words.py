"""The workflow of words: texts become lazy columns, and few words predict where a text is from."""

import numpy as np
from click.testing import CliRunner

from pipelines import words
from pipelines.words import documents, main, occurrences


def test_occurrences__are_lazy_and_leave_out_words(monkeypatch):
    monkeypatch.setattr(words, "CHUNK", 2)
    texts = ["a matrix", "the matrix", "of a filter"]
    found = occurrences(texts, ["the"], rare=1)
    assert found.chunks[0] == (2, 1)
    assert found["word"].values.tolist() == ["filter", "matrix"]
    np.testing.assert_array_equal(found.values, [[0, 1], [0, 1], [1, 0]])


def test_documents__are_those_of_large_parts():
    texts, parts = documents("scipy", least=150)
    assert {"stats", "special"} <= {*parts}
    assert len({*texts}) == len(texts) == len(parts)
    assert min(map(parts.count, {*parts})) >= 150


def test_main__prints_words_and_draws(tmp_path):
    given = ["--words", "3", "--rare", "100", "--method", "jmi", "--output", str(tmp_path)]
    done = CliRunner().invoke(main, given, catch_exceptions=False)
    assert done.exit_code == 0
    assert "jmi: distribution" in done.output
    assert (tmp_path / "figures" / "words.png").stat().st_size > 1000
