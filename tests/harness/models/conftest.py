import pytest
import torch
from transformers import AutoModelForCausalLM

from dpicl import models
from dpicl.models.transformers import TransformersLM
from tests.harness.models.tiny import SlowReader, save_tiny_llama


@pytest.fixture(scope="package", autouse=True)
def one_thread():
    """Tiny matrices are slower on several threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def kept_measures(request):
    """What is measured of the tiny model is kept for this session, in no cache of the user's; the embedded model is not
    converted again."""
    if "model" not in request.keywords:
        request.getfixturevalue("own_cache")


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    return save_tiny_llama(tmp_path_factory.mktemp("tiny-llama"))


@pytest.fixture
def tiny(tiny_folder, own_cache):
    model = models.load(f"hf:{tiny_folder}", device="cpu", dtype="float32")
    assert isinstance(model, TransformersLM)
    return model


@pytest.fixture(scope="session")
def slow(tiny_folder):
    return SlowReader(AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32).eval())
