"""The server files of examples/serving name files, ports and models that are there, once they are merged."""

import re
from pathlib import Path

import pytest
import yaml
from google.protobuf import text_format
from packaging.requirements import Requirement
from packaging.version import Version
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from hub_export.export import SERVING

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples/serving"
README = (FOLDER / "README.md").read_text("utf-8")
COMPOSE, BATCHING = "compose.yaml", "compose.batching.yaml"


def service(*files):
    """The one service of compose files: a later one adds to lists; its command takes the other's place."""
    merged = {"volumes": []}
    for file in files:
        (found,) = yaml.safe_load((FOLDER / file).read_text("utf-8"))["services"].values()
        merged |= {**found, "volumes": merged["volumes"] + found["volumes"]}
    return merged


def mounts(service):
    """Folders and files of the host by their place in the container."""
    found = [volume.removesuffix(":ro").rpartition(":") for volume in service["volumes"]]
    return {target: source for source, _, target in found}


@pytest.mark.parametrize("files", [[COMPOSE], [COMPOSE, BATCHING]])
def test_the_server_finds_what_its_flags_name(files):
    served = service(*files)
    flags = dict(flag.removeprefix("--").split("=") for flag in served["command"])
    there = mounts(served)
    named = {value for name, value in flags.items() if name.endswith("_file")}
    assert named == {target for target in there if target.startswith("/config/")}
    for target in named:
        assert (FOLDER / there[target]).is_file()
    text = (FOLDER / there[flags["model_config_file"]]).read_text("utf-8")
    (model,) = text_format.Parse(text, ModelServerConfig()).model_config_list.config
    assert there[model.base_path].startswith("${MODELS:?")
    assert ("enable_batching" in flags) is (BATCHING in files)  # the server refuses one without the other
    assert ("batching_parameters_file" in flags) is (BATCHING in files)


def test_the_image_is_a_release_that_fits_the_protocol():
    name, tag = re.fullmatch(r"(.*):\$\{TF_SERVING_TAG:-(.*)\}", service(COMPOSE)["image"]).groups()
    assert f"`{name}:{tag}`" in README
    lines = (ROOT / "pyproject.toml").read_text("utf-8")
    needed = Requirement(re.search(r'"(tensorflow-serving-api.*?)"', lines)[1])
    assert re.fullmatch(r"\d+\.\d+\.\d+", tag) and Version(tag) in needed.specifier


def test_the_clients_ask_at_the_published_ports():
    ports = dict(port.split(":") for port in service(COMPOSE)["ports"])
    asked = {
        re.search(r'parser\(__doc__, "(?:http://)?localhost:(\d+)"\)', (FOLDER / f"{client}.py").read_text())[
            1
        ]
        for client in ("grpc_client", "rest_client")
    }
    assert asked == set(ports) == set(ports.values()) == {"8500", "8501"}


def test_the_readme_serves_what_the_demo_makes():
    commands = re.findall(r"MODELS=\$PWD/(\S+) docker compose ((?:-f \S+(?: \\\n +| ))+)up", README)
    demo = (ROOT / "demo.py").read_text("utf-8")
    (output,), (modules,) = (re.findall(x, demo) for x in (r'OUTPUT = Path\("(.*)"\)', r'OUTPUT / "(hub)"'))
    assert [folder for folder, _ in commands] == [f"{output}/{modules}/{SERVING}"] * 2
    files = [re.findall(r"-f (\S+)", flags) for _, flags in commands]
    folder = FOLDER.relative_to(ROOT)
    assert files == [[f"{folder}/{COMPOSE}"], [f"{folder}/{COMPOSE}", f"{folder}/{BATCHING}"]]
