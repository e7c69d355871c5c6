"""How many examples hypothesis tries of a property: all of them in `make test-all`, a quarter in `make test`."""

from __future__ import annotations

from hypothesis import settings

# No property has a deadline: beside other work one example may take long.
settings.register_profile("default", deadline=None)
settings.load_profile("default")
settings.register_profile("fast", max_examples=settings.default.max_examples // 4)


def examples(number: int) -> int:
    """So many, or the part of them that this session's profile asks for."""
    return max(
        2, number * settings.default.max_examples // settings.get_profile("default").max_examples
    )
