"""The benchmarks run on tiny data."""

import json

from click.testing import CliRunner

from pipelines.bench.__main__ import GROUPS, main
from pipelines.bench.tools import Curve, Figure
from pipelines.model import fit, read_scans


def test_bench__runs_and_writes_its_results(tmp_path):
    output = tmp_path / "bench.json"
    options = ["--small", "--repeats", "1", "--output", str(output)]
    done = CliRunner().invoke(main, options, catch_exceptions=False)
    assert done.exit_code == 0
    report = json.loads(output.read_text())
    assert report["machine"][0]["cores"] >= 1
    figures = report["figures"]
    names = [figure["name"] for figure in figures]
    assert len(names) == len(set(names))
    assert {figure["group"] for figure in figures} == set(GROUPS)
    for figure in figures:
        assert figure["name"] in done.output
        assert (figure["holds"] is None) == (figure["target"] is None)
    assert (tmp_path / "bench.png").stat().st_size > 0
    assert all(value >= 0 for value in fit(read_scans(output)).constants.values())


def test_figure__is_met_if_it_is_within_its_target():
    low = Figure("a", 1.0, "", "", {}, target=2.0)
    assert low.holds
    assert not Figure("a", 1.0, "", "", {}, target=2.0, at_most=False).holds
    assert Figure("a", 1.0, "", "", {}).holds is None


def test_curve__slope_is_the_exponent_of_the_last_points():
    curve = Curve("n_samples", "jmi", (1, 2, 4, 8), (5.0, 4.0, 16.0, 64.0), "")
    assert abs(curve.slope - 2) < 1e-12
