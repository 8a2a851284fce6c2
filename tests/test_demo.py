"""The demonstration: the robust model finds the gross errors and predicts better, and a picture is drawn."""

import numpy as np
from typer.testing import CliRunner

from cavity.cli import app
from cavity.demo import N_OUTLIERS, make_data


def test_data_are_reproducible_and_have_gross_errors():
    a, b = make_data(3), make_data(3)
    np.testing.assert_array_equal(a.y, b.y)
    assert a.is_outlier.sum() == N_OUTLIERS


def test_the_command_ends_with_a_table_and_a_picture(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert f"{N_OUTLIERS} of {N_OUTLIERS}" in result.output
    picture = tmp_path / "fits.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "Picture:" in result.output
