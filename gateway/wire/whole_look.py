"""What every look at a whole answer begins with: nothing is known yet."""

from gateway.price import Usage


class WholeLook:
    """The fields of a ``WholeView``; what fills them is each format's own ``take``."""

    __slots__ = ("finish_reason", "model", "output_bytes", "usage")

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.finish_reason = ""
        self.model = ""
        self.output_bytes = 0
