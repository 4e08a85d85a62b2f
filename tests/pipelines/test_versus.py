import json
import sys

import numpy as np

from pipelines import versus


def test_make_data__ten_features_determine_the_target():
    x, y = versus.make_data(4000, 40, seed=1)
    gap = np.abs(x[y == 1].mean(axis=0) - x[y == 0].mean(axis=0))
    # of the true features, and less of their twenty noisy copies; the other ten are noise
    assert (np.sort(gap)[:10] < 0.15).all()
    assert (np.sort(gap)[-10:] > 0.3).all()


def test_run__adds_to_earlier_runs_and_states_why_a_package_failed(tmp_path, capsys):
    results = tmp_path / "versus.json"
    results.write_text(json.dumps({"old": {"Boruta": {"failed": "over 1 s"}}}))
    size = {"200 x 40": (200, 40, 5)}
    found = versus.run(size, ["hofs_dask jmi", "mrmr_selection"], "no-such-python", 60, results)
    assert json.loads(results.read_text()) == found
    own = found["200 x 40"]["hofs_dask jmi"]
    assert own["accuracy"] > 0.6
    assert 0 < own["warm"] <= own["cold"]
    failed = found["200 x 40"]["mrmr_selection"]["failed"]
    assert "no-such-python" in failed
    text = versus.as_text(found)
    assert text.splitlines()[2] == "| old | Boruta | over 1 s | | | | |"
    assert text.splitlines()[4] == f"| 200 x 40 | mrmr_selection | {failed} | | | | |"
    assert "200 x 40 hofs_dask jmi" in capsys.readouterr().err


def test_child__that_takes_too_long_is_stopped(tmp_path):
    # the package is started, but its data is never complete
    import os

    os.mkfifo(tmp_path / "x.npy")
    found = versus._child(sys.executable, "hofs_dask jmi", tmp_path, 2, 1.0)
    assert found == {"failed": "over 1 s"}
