"""The benchmarks run, on tiny data: so that they cannot rot."""

import json

from click.testing import CliRunner

from pipelines.bench import BENCHMARKS, main


def test_bench__runs_and_writes_what_it_measured(tmp_path):
    output = tmp_path / "bench.json"
    options = ["--small", "--workers", "1", "--repeats", "1", "--output", str(output)]
    done = CliRunner().invoke(main, options, catch_exceptions=False)
    assert done.exit_code == 0
    report = json.loads(output.read_text())
    assert report["machine"]["cores"] >= 1
    names = [figure["name"] for figure in report["figures"]]
    assert len(names) == len(set(names)) == 9
    for figure in report["figures"]:
        assert figure["ratio"] == figure["seconds"] / figure["of_seconds"]
        assert figure["name"] in done.output
    assert len(BENCHMARKS) == 3
