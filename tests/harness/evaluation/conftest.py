from tests.harness.models.conftest import one_thread, tiny, tiny_folder

__all__ = ["one_thread", "tiny", "tiny_folder"]
