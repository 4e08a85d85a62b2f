"""The workflow of genetic markers: PLINK files are read, and the pair behind the trait is found."""

import numpy as np
import pytest
from click.testing import CliRunner

import hofs_dask as hd
from pipelines.markers import common, generated, main, read_bed, trait


def write_bed(path, genotypes):
    """Write genotypes (sample, marker), by the bits of the specification of PLINK 1."""
    bits = {0: 0b11, 1: 0b10, 2: 0b00}
    data = [0x6C, 0x1B, 1]
    for column in genotypes.T:
        codes = [bits.get(value, 0b01) for value in column]
        codes += [0] * (-len(codes) % 4)
        data += [sum(code << 2 * j for j, code in enumerate(codes[i : i + 4]))
                 for i in range(0, len(codes), 4)]  # fmt: skip
    path.write_bytes(bytes(data))
    n_samples, n_markers = genotypes.shape
    path.with_suffix(".fam").write_text("".join(f"f {i} 0 0 0 -9\n" for i in range(n_samples)))
    path.with_suffix(".bim").write_text("".join(f"1 rs{j} 0 {j} A G\n" for j in range(n_markers)))


def test_bed__is_read_lazily_with_missing_calls(tmp_path):
    rng = np.random.default_rng(0)
    genotypes = rng.choice([0.0, 1.0, 2.0, np.nan], (13, 7))
    write_bed(tmp_path / "study.bed", genotypes)
    read = read_bed(tmp_path / "study.bed")
    assert read.chunks is not None
    assert read["marker"].values.tolist() == [f"rs{j}" for j in range(7)]
    np.testing.assert_array_equal(read.values, genotypes)
    (tmp_path / "study.bed").write_bytes(b"\x6c\x1b\x00")
    with pytest.raises(ValueError, match="not a PLINK 1 file"):
        read_bed(tmp_path / "study.bed")


def test_pair__is_found_though_no_marker_has_an_effect(tmp_path):
    genotypes = generated(600, 400)
    pair = [common(genotypes, near) for near in (0.1, 0.7)]
    y = trait(*(genotypes.sel(marker=name).values for name in pair))
    alone = hd.select(genotypes, y, "auto", method="mim", feature_dim="marker")
    assert alone.features == []
    assert set(hd.interactions(genotypes, y, top=1, feature_dim="marker").tuples[0]) == {*pair}


def test_main__reads_a_file_and_draws(tmp_path):
    write_bed(tmp_path / "study.bed", generated(200, 40).values)
    given = ["--genotypes", str(tmp_path / "study.bed"), "--copies", "2", "--top", "3"]
    done = CliRunner().invoke(main, [*given, "--output", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0
    assert "400 samples, trait from rs" in done.output
    assert "3 of 780 pairs of 40 features" in done.output
    assert (tmp_path / "figures" / "markers.png").stat().st_size > 1000
