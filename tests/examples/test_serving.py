"""The server files of examples/serving name files, ports and models that are there."""

import re
from pathlib import Path

import pytest
import yaml
from google.protobuf import text_format
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from hub_export.export import SERVING

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples/serving"
README = (FOLDER / "README.md").read_text("utf-8")


@pytest.fixture(scope="module")
def service():
    """The only service of the only compose file."""
    (file,) = FOLDER.glob("compose*")
    (service,) = yaml.safe_load(file.read_text("utf-8"))["services"].values()
    return service


def mounts(service):
    """Folders and files of the host by their path in the container."""
    pairs = [volume.removesuffix(":ro").rpartition(":") for volume in service["volumes"]]
    return {target: source for source, _, target in pairs}


def test_the_server_finds_what_its_flags_name(service):
    flags = dict(flag.removeprefix("--").split("=") for flag in service["command"])
    sources = mounts(service)
    named = {value for name, value in flags.items() if name.endswith("_file")}
    assert named == {target for target in sources if target.startswith("/config/")}
    for target in named:
        assert (FOLDER / sources[target]).is_file()
    text = (FOLDER / sources[flags["model_config_file"]]).read_text("utf-8")
    (model,) = text_format.Parse(text, ModelServerConfig()).model_config_list.config
    assert sources[model.base_path].startswith("${MODELS:?")
    assert flags["enable_batching"] == "true"  # the server refuses parameters without it


def test_the_readme_serves_what_the_demo_makes():
    commands = re.findall(r"MODELS=\$PWD/(\S+) docker compose -f (\S+) up", README)
    demo = (ROOT / "demo.py").read_text("utf-8")
    (output,), (modules,) = (re.findall(x, demo) for x in (r'OUTPUT = Path\("(.*)"\)', r'OUTPUT / "(hub)"'))
    assert commands == [(f"{output}/{modules}/{SERVING}", "examples/serving/compose.yaml")]
