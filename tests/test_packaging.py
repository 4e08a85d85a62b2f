"""The recipe of the conda package says what pyproject.toml says; rattler-build itself reads it."""

import re
import tomllib
from pathlib import Path

import pytest
from rattler_build import RenderConfig, Stage0Recipe, VariantConfig

import hofs_dask

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def recipe():
    (variant,) = Stage0Recipe.from_file(str(ROOT / "conda" / "recipe.yaml")).render(
        VariantConfig(), RenderConfig()
    )
    return variant.recipe.to_dict()


def requirements(lines):
    """Names and least versions: conda has neither extras nor underscores."""
    return {re.sub(r"\[.*\]|\s", "", line).replace("_", "-") for line in lines}


def test_recipe__has_the_requirements_of_the_project(recipe):
    project = PROJECT["project"]
    python = f"python{project['requires-python']}"
    assert requirements(recipe["requirements"]["run"]) == requirements(
        [python, *project["dependencies"]]
    )
    host = requirements(recipe["requirements"]["host"])
    assert host >= requirements(PROJECT["build-system"]["requires"])


def test_recipe__has_the_version_and_command_of_the_project(recipe):
    project = PROJECT["project"]
    assert recipe["package"]["name"] == project["name"]
    assert recipe["package"]["version"] == project["version"] == hofs_dask.__version__
    ((command, entry),) = project["scripts"].items()
    assert recipe["build"]["python"]["entry_points"] == [f"{command} = {entry}"]
    assert recipe["about"]["summary"] == project["description"]
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(r"^## (\S+)", changelog, re.MULTILINE)[1] == project["version"]
