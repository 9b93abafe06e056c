"""What can go wrong: bad input, and questions without an answer."""

from __future__ import annotations

from ._stepcast import input_error_text


class InputError(ValueError):
    """What is wrong with an input: one line, and its parts."""

    def __init__(self, where: str, expected: str, found: str, hint: str = "") -> None:
        super().__init__(where, expected, found, hint)
        self.where = where
        self.expected = expected
        self.found = found
        self.hint = hint

    def __str__(self) -> str:
        parts = (self.where, self.expected, self.found, self.hint)
        # What was found may be a text that UTF-8 cannot write.
        return input_error_text(*(str(part).encode("utf-8", "replace").decode() for part in parts))


class Inapplicable(ValueError):
    """A question without an answer, with the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


InputError.__module__ = Inapplicable.__module__ = "stepcast"
